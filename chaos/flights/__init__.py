"""The main job: a year of flights into four systems, what must become of them, and the verdict."""
