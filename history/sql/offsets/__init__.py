"""Kafka's offsets in SQL, next to the effects, instead of an entry for each message.

``position.py`` is the settled part of one partition, and ``rows.py`` stores it in a table. ``seen.py`` is
what one process knows about the table, ``history.py`` answers from it.
"""
