"""Sources of a service that need no server: Python values, and the lines of a file.

A new source derives from `tpc.source.Source`. One that needs a server is beside the sink of its system, as
`sinks/kafka/source` is. `tpc/sources.py` names it for users.
"""
