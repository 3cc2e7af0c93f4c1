"""How messages share round trips to the history: one after the other, and beside each other.

``turn.py`` makes one round trip of the end of a message and the begin of the next, ``gathered.py`` one call
of what many tasks ask for, ``pace.py`` one transaction of several quick messages.
"""
