"""What several packages need from the operating system: files, time, connections, processes.

Imported by sinks, coordinator and chaos; neither by the core nor by `tpc.testing`.
"""
