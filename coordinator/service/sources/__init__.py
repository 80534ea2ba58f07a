"""Sources that need no server: Python's own values, and the lines of a file."""
