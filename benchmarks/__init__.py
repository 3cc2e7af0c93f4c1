"""The cost of doubtless, measured beside code that does the least possible work."""
