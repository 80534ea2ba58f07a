"""Requests to a Kafka cluster and their answers; independent of rows and decisions."""
