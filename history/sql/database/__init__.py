"""The way to a database, whichever it is.

``engine.py`` makes engines and runs steps, on a pool or inside somebody's transaction; ``postgresql.py`` and
``files.py`` are what is special about PostgreSQL and about a file of SQLite, which ``paths.py`` finds by its
URL. ``errors.py`` sorts what drivers raise, ``probe.py`` asks whether a server answers again, ``silence.py``
ends what waits for one that says nothing, ``forks.py`` keeps connections out of forked children. ``turns.py``
hands out the connections of a full pool in turn, ``riders.py`` sends statements with the next one,
``nesting.py`` knows who asks from inside a transaction, ``serving.py`` what a service may do to its
connection. ``check.py`` finds settings that lose commits,
``encoding.py`` characters that a database does not have, ``room.py`` how many connections there is room for,
``permissions.py`` what the role may not do.
"""
