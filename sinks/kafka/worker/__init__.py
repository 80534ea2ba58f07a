"""The part in a worker process: it writes rows to one open, prepared transaction per branch."""
