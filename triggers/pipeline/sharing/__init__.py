"""How messages share round trips to the history: one after the other, or concurrently.

``turn.py`` makes one round trip of the end of a message and the start of the next. ``gathered.py`` makes one
call of what many tasks request. ``pace.py`` makes one transaction of several quick messages.
"""
