"""The comparison of kolo with other libraries on one machine."""
