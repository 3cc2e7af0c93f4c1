"""The document history in SQLite and PostgreSQL.

``history.py`` is the store; ``control.py``, ``joining.py``, ``parking.py``, ``progress.py`` are its other
protocols; ``database/`` the connections, ``tables/`` what lies in the database, ``statements/`` the SQL.
"""

from typing import TYPE_CHECKING

from history.faces import lazy

if TYPE_CHECKING:
    from history.sql.history import SqlHistory

__all__ = ["SqlHistory"]

__getattr__ = lazy(__name__, history=("SqlHistory",))
