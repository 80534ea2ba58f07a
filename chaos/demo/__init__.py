"""The demo and the soak: the main job, killed over and over, and judged."""
