"""What people do with pipelines and see of them: commands, monitoring, the page, savepoints, supervision."""
