"""A deterministic simulator: the production coordinator against simulated systems, one seed, one virtual clock."""
