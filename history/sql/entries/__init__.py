"""The steps of a SQL history: what it does to the entries of messages, each on a connection that it is given.

``claims.py`` and ``settlements.py`` begin and end them, ``purging.py`` forgets them. ``fences.py`` steps over
fences that a database with older data would grant again, and ``lineage.py`` finds out that it is such a one.
``anchor.py`` notices a table that was emptied.
``permissions.py`` is what a role needs for all that.
"""
