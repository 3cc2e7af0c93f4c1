"""Connections to a database of either kind.

``engine.py`` makes engines and runs steps, on a pool or inside a caller's transaction. ``postgresql.py`` has
the special cases of PostgreSQL, ``files.py`` those of a SQLite file, which ``paths.py`` finds by its URL.
``errors.py`` sorts errors of drivers, ``probe.py`` finds out whether a server answers again, ``silence.py``
ends waits for a silent server, and ``forks.py`` keeps connections out of forked children. ``turns.py`` hands
out the connections of a full pool in turn, and ``riders.py`` sends statements with the next one.
``nesting.py`` recognizes calls from inside a transaction, ``serving.py`` limits what a service may do to its
connection. ``check.py`` finds settings that lose commits, ``encoding.py`` encodings that lack characters,
``room.py`` how many more connections are possible, and ``permissions.py`` privileges that the role lacks.
"""
