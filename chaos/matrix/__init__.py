"""The fault matrix: one pipeline into all four systems, and every fault at every step of its protocol.

`cells` says which faults are tried where, `cases` makes cases of them, `running` runs one, `engine` many. The pipeline
stands in `pipeline`, its processes in `lives` and `sessions`, what is written down about a case in `records`.
"""
