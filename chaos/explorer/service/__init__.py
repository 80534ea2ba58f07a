"""A service: several sources, one cut, states that are read again, an epoch that is run again."""
