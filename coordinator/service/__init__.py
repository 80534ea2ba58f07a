"""The runtime without Spark: one plain process, the same sinks, log, coordinator and recovery."""
