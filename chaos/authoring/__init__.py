"""What the author of a new sink gets from the command line: a skeleton to fill in, and the kit with its report."""
