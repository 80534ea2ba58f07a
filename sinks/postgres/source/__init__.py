"""A table of PostgreSQL to which rows are only added, read as a stream in the order of its transactions."""
