"""What the driver does: ends transactions that workers have prepared, and says what is in doubt."""
