"""`make mutants`: mistakes that a machine makes in the code of the protocol, to measure what the checks do not see.

The tables in tests/mutants have mistakes that somebody thought of. These are drawn from all that a few operators can
make: a comparison is flipped, a statement is left out. One that every check lets pass is a missing check, or it changes
no behaviour, which `tests/mutants/machine/equivalent.toml` then says.
"""
