"""What a running pipeline tells: metrics, health, positions, and its log as JSON."""
