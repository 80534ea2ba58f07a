"""What is common to sinks and knows no system."""
