"""What several layers need and what touches the world: files, time, connections, processes.

Imported by sinks, coordinator and chaos; by neither the protocol nor `tpc.testing`.
"""
