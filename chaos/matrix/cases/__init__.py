"""Which cases there are, suite by suite: the table of cells and its cases, pairs, processes, disks, load."""
