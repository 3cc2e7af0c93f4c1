"""Limbo: messages that wait in a database until they are due, to be sent or to be tried again.

``limbo.py`` puts, takes and gives back, ``codec.py`` is a waiting message as rows, readable or not,
``tables.py`` and ``statements.py`` are the SQL, ``admin.py`` is for operators.
"""
