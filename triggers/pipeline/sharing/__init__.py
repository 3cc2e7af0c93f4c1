"""How messages share round trips to the history: one after the other, and beside each other."""
