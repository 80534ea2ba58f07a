"""The coordinator's part: ends transactions that workers have prepared, and lists branches in doubt."""
