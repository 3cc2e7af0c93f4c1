"""The log of what a publisher committed."""
