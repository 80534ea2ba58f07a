"""The source offsets of an epoch as one more branch: a consumer group moves together with the sinks."""
