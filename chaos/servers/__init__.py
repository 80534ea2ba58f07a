"""Real servers and a Spark session on this machine, out of packages."""
