"""Every interleaving of a small world: explicit-state search over the real core and the real recovery rules.

Nothing of the protocol is modelled twice: `tpc.machine`, `tpc.fold`, `tpc.consistency`, `tpc.abort_rules` and the
records are the ones that run in production. Modelled is what surrounds them: a log and three sinks in memory, messages
that come late, Spark's batches, crashes.
"""
