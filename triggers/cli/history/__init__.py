"""``doubtless history``: the entries of a document history on the command line.

``commands.py`` shows, counts and removes entries, and prints the tables of a SQL history or brings them up to
date. ``importing.py`` adds the entries of messages that another system has processed.
"""
