"""``doubtless parked``: ``commands.py`` has the commands, and ``options.py`` their options.

``deciding.py`` asks about a decision and carries it out. What it calls is in ``triggers/operations/``.
"""
