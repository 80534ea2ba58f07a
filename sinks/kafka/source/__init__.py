"""Kafka as a source of a service: all partitions of its topics, read_committed, from positions that the log keeps."""
