"""Commands for the time before the start: guarantees, needs, and problems.

``guarantees.py``, ``doctor.py``, ``backlog.py``, ``size.py`` and ``alerts.py`` are the commands. Doctor's
``findings.py`` come from ``stores.py``, ``providers.py``, ``places.py`` (other places that store something),
``rooms.py`` (connections) and ``lines.py`` (encryption).
"""
