"""The sink for calls to other systems, which cannot be undone: decided with the epoch and made after it."""
