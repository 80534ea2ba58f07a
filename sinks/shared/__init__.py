"""What several sinks use and what depends on no system."""
