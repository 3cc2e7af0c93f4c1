"""The way in: messages into the tables.

``outbox.py`` encodes messages as rows and writes them, in its own transaction or in a caller's;
``statements.py`` has the SQL.
"""
