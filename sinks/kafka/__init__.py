"""The Kafka sinks: rows into topics, and source offsets into a consumer group.

`sink` and `offsets.sink` are the classes that users make. They load their writer and committer only when one is needed,
and no other module imports them. What writer and committer need is in `transactional_sink`, which both extend, and in
`connection_settings`. These two modules are descriptions that open nothing, and every module may import them.

Imports: sink, offsets -> driver -> check -> worker -> cluster -> descriptions.
"""
