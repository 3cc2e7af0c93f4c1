"""``doubtless parked``: ``commands.py`` has the commands, and ``choosing.py`` finds what they are about.

``deciding.py`` asks, carries a decision out, and shows what was decided; ``running.py`` runs the service.
``resolving.py`` asks the trigger's resolver and changes nothing. ``options.py`` is what these commands take.
"""
