"""Kafka's offsets in SQL, beside the effects, instead of an entry for each message.

``position.py`` is what of one partition is settled, ``rows.py`` keeps that in a table, ``seen.py`` is what
one process knows of the table, and ``history.py`` answers from it.
"""
