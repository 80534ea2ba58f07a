"""What every run needs: processes that end with their owner, and a directory of its own."""
