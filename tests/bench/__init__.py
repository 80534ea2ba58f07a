"""The same work by this library and by what users would pick today, measured side by side on the same servers.

`python -m tests.bench` (or `make bench`) runs it. Nothing here is collected as a test, and no test asserts a time.
"""
