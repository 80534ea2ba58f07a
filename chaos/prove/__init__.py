"""`make prove`: explore, simulate, and show that both notice when the protocol is broken.

A check that finds nothing says little until it is seen to find something. So the same checks run on mutants, copies of
the code with one mistake each, and every mistake must violate an invariant that has a name.
"""
