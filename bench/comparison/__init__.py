"""The comparison of kolo with other libraries that all-reduce on one machine."""
