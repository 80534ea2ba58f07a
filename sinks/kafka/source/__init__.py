"""Kafka as a source of a loop: all partitions of its topics, read_committed, from positions that the log keeps."""
