"""bench/net: the all-reduce between nodes."""
