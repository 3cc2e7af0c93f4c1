"""The document history in SQLite and PostgreSQL.

``history.py`` is the store, and ``entries/`` has its steps; ``records.py`` stores the data of
:mod:`history.beside`. ``batches.py`` ends whole batches and changes records in one step.
``transaction.py`` is one transaction for a service's effects and their entry. ``callers.py`` checks the
transaction that a caller gives. ``database/`` has the connections, ``tables/`` the tables, ``statements/``
the SQL. ``links/`` is the history of ordered links. ``offsets/`` is the history of Kafka consumers that store
their offsets here. ``placed.py`` has the shared parts of these two.
"""

from typing import TYPE_CHECKING

from history.support.faces import lazy

if TYPE_CHECKING:
    from history.sql.history import SqlHistory as SqlHistory
    from history.sql.offsets.history import OffsetHistory as OffsetHistory
else:  # for a type checker, any name would be there
    __getattr__ = lazy(__name__)
