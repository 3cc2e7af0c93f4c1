"""Capture: a plain INSERT, UPDATE or DELETE of a link's tables becomes an operation, without ``append``.

``declared.py`` reads the setting ``tables``, ``sqlite.py`` and ``postgres.py`` write the SQL triggers, and
``installing.py`` creates, compares and drops them. A trigger writes a :class:`~.changes.Change` into
``doubtless_link_changes``, in the transaction of the change; the agent moves it into the log. ``changes.py``
applies changes at the other end. ``subscribing.py`` stops a link whose peer needs other rows than it has.
"""
