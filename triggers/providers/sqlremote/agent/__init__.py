"""Runs the protocol of one end of a link: reads, applies, reports and sends.

``agent.py`` is one run, ``end.py`` the row, the states and the way to database and carrier,
``incoming.py`` and ``outgoing.py`` the two directions, ``hooks.py`` calls code of the user's,
``quarantine.py`` keeps what cannot be trusted.
"""
