"""``doubtless history``: the entries of a document history on the command line.

``commands.py`` shows, counts and removes entries. ``importing.py`` adds those of messages that another system
has processed.
"""
