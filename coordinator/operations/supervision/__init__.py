"""Restarts of a pipeline's process."""
