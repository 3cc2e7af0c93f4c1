"""Runs the protocol of one end of a link: reads, applies, reports and sends.

``agent.py`` is one run, ``end.py`` has the row, the states, and the connection to database and carrier,
``incoming.py`` and ``outgoing.py`` are the two directions, ``hooks.py`` calls code of the user.
"""
