"""The fault matrix: one pipeline into all four systems, and every fault at every step of its protocol.

`cases` says what is tried; `case_run` runs one case on a test bench (`bench`), `workers` many on several.
The pipeline is in `pipeline`, its processes in `lives` and `sessions`, what must hold after a case in `judging`,
what is written down about it in `records`.
"""
