"""Savepoints: a pipeline as one folder that moves it or forks it. Making, restoring and keeping them."""
