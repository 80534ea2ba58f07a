"""The Kafka sinks: rows into topics, and source offsets into a consumer group.

Imports: offsets -> driver -> check -> worker -> cluster.
"""
