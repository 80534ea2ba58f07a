"""The shape of the library, read from its source: who imports whom, the rules about that, and the picture of it.

Knows nothing of what the rules of this project are: those stand as data in `tests/core/test_layers.py`.
"""
