"""Kills at the steps of the protocol: planned, carried out, recorded."""
