"""What a running pipeline tells: log lines, metrics, health, callbacks."""
