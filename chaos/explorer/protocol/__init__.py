"""The protocol: a log, three sinks and their branches, coordinators that die, wake up and take over."""
