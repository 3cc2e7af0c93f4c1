"""``doubtless parked``: ``commands.py`` has the commands, and ``choosing.py`` finds their messages.

``deciding.py`` asks, carries a decision out, and shows earlier decisions; ``running.py`` runs the service.
``resolving.py`` asks the trigger's resolver and changes nothing. ``options.py`` has the options of these
commands.
"""
