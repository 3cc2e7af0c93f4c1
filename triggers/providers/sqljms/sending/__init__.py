"""The way in: messages into the tables.

``outbox.py`` sends, in a transaction of its own or in somebody's; ``outgoing.py`` is messages as rows, and
how they are written; ``statements.py`` has the SQL.
"""
