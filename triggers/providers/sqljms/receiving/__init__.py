"""The way out: one consumer of a queue or a subscription.

``receiver.py`` is the consumer, ``entries.py`` claims, removes and gives back, ``clients.py`` and
``client_statements.py`` know consumers by name and lease, ``connection.py`` connects the consumer to the
database, ``odd_rows.py`` reads rows that SQLite cannot return. ``pinning.py`` is for readers that read
again, such as Spark.
"""
