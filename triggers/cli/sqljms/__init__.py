"""``doubtless sqljms``.

``commands.py`` and ``limbo.py`` have the commands, ``options.py`` what they share.
"""
