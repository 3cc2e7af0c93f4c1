"""An extract of one end of a link: its tables, and where the other end begins with them.

What the original does with ``SYNCHRONIZE SUBSCRIPTION`` and its extraction utility. ``document.py`` is the
file, ``tables.py`` its rows out of tables and back, ``postgres.py`` how PostgreSQL's values travel,
``extract.py`` writes one and resets this end in one transaction, ``load.py`` puts it into the other end and
resets that one in one transaction.
"""
