"""What happens in a worker process: rows become one open, prepared transaction per branch."""
