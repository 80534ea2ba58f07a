"""Values of every Arrow type through every sink: equal under docs/reference/values.md, or refused by name."""
