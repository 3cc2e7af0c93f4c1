"""The steps of a SQL history on the entries of messages, each on a connection that the caller passes.

``claims.py`` and ``settlements.py`` begin and end them, ``purging.py`` forgets them, and
``counting.py`` counts them. ``fences.py`` skips fences that a database with older data would grant again, and
notices a table that was emptied. ``lineage.py`` detects such a database. ``permissions.py`` lists what a role
needs for this.
"""
