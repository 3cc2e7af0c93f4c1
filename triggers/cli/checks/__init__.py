"""Commands for before the start: what is promised, what it needs, and what is wrong with it."""
