"""A user's pipeline under faults: `tpc chaos run`. See `command`; what is done to it begins in `run`."""
