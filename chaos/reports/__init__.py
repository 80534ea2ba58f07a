"""The HTML reports: one file each, which fetches nothing."""
