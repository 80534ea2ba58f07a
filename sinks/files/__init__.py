"""The file sink: one manifest per epoch publishes the files of all its branches."""
