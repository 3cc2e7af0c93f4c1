"""Commands for before the start: what is promised, what it needs, and what is wrong with it.

``guarantees.py``, ``doctor.py``, ``backlog.py``, ``size.py`` and ``alerts.py`` are the commands. Doctor's
``findings.py`` come from ``stores.py``, ``providers.py``, ``places.py`` (where else something is kept),
``rooms.py`` (connections) and ``lines.py`` (encryption).
"""
