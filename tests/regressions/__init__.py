"""What went wrong in systems of this kind elsewhere must not go wrong here: one test for each known defect.

A test is named after the wrong behaviour that must not happen; its docstring names the system that had it, and where
that can be read. Where the defect lies with Spark, the pipeline runs on Spark; else `job.Job` stands for it.
"""
