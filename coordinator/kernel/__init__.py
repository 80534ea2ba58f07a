"""One epoch from begin to complete, whichever runtime computes it: claim, engine, log, participants, leadership."""
