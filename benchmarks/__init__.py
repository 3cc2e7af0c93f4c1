"""The cost of doubtless, compared with code that does the least possible work."""
