"""The Kafka sinks: rows into topics, and source offsets into a consumer group.

`sink` and `offsets.sink` are what users make. They load their writer and committer when asked for one, and no other
module knows them: what writer and committer need to know is in `transactional_sink`, which both extend, and in
`connection_settings`. These two are descriptions, open nothing, and may be read from everywhere.

Imports: sink, offsets -> driver -> check -> worker -> cluster -> descriptions.
"""
