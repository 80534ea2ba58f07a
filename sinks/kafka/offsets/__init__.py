"""The source offsets of an epoch as one more branch: a consumer group is committed together with the sinks."""
