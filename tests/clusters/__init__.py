"""Servers as they are run in production, and the faults that strike there: the cases of `make clusters`."""

ALL = "TPC_CLUSTERS"
"""The variable that says that all cases are wanted, not only the core of `make test`."""
