"""The sink for effects outside: calls that cannot be taken back, decided with the epoch and made after it."""
