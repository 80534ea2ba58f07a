"""Values of every Arrow type through every sink: equal under docs/reference/sink-values.md, or refused by name."""
