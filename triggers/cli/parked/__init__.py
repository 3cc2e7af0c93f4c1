"""``doubtless parked``: ``commands.py`` has the commands, and ``options.py`` their options.

``deciding.py`` asks about a decision and carries it out, and ``running.py`` runs messages. What they call is
in ``triggers/operations/``.
"""
