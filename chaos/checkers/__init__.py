"""What must be true after a run, however it was disturbed: checks of their own, which know no pipeline.

`compare` holds the rules (equal multisets, equal tallies, every record in one place); the other modules read what
a system shows, by themselves and not through the sinks. What a particular job must have made stands with the job.
"""
