"""The SQL, each statement a named block with its purpose.

``dialects.py`` makes one text serve SQLite and PostgreSQL. ``entries.py``, ``offsets.py``, ``records.py`` and
``watermark.py`` have the statements of one protocol or table each.
"""
