"""The way in: messages into the tables.

``outbox.py`` sends, in its own transaction or in a caller's; ``outgoing.py`` encodes messages as rows, and
writes them; ``statements.py`` has the SQL.
"""
