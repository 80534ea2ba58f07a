"""The page of `tpc ui`: what the logs of any number of pipelines say, in a browser. It reads, and changes nothing."""
