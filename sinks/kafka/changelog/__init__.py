"""A compacted topic as the changelog of a state: written as a branch of each epoch, read to rebuild a lost store."""
