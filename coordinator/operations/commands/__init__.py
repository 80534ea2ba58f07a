"""The commands of `tpc`, and what they find and print."""
