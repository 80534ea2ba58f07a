"""A pipeline of the user's own under faults: `tpc chaos run`. See `command`."""
