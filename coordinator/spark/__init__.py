"""What is Spark's own: its settings, its plans, its checkpoint, and how that is brought up to the intent log."""
