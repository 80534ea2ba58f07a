"""A standalone Spark cluster whose executors and workers end, leave and come, and whose driver is killed."""
