"""The main job: a year of flights into four systems, what must happen to them, and the verdict."""
