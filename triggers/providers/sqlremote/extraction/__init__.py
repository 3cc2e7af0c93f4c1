"""An extract of one end of a link: its tables, and where the other end begins with them.

In the original this is ``SYNCHRONIZE SUBSCRIPTION`` and its extraction utility. ``document.py`` is the file,
``tables.py`` reads rows from tables and writes them back, ``postgres.py`` encodes PostgreSQL's values.
``extract.py`` writes an extract and resets this end in one transaction; ``load.py`` loads it into the other
end and resets that end in one transaction.
"""
