"""The Kafka sinks: rows into topics, and source offsets into a consumer group.

`sink` and `offsets.sink` are what users make. They load their writer and committer when asked for one, and no other
module knows them: what writer and committer need to know stands in `transactional_sink`, which both extend.

Imports: sink, offsets -> driver -> check -> worker -> cluster, and each of them transactional_sink.
"""
