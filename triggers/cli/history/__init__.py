"""``doubtless history``: the entries of a document history on the command line.

``commands.py`` shows, counts and removes entries. ``importing.py`` adds those of messages that another system
has processed. ``tables.py`` prints the tables of a SQL history, and brings them up to date.
"""
