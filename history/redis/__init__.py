"""The document history in Redis: each call is one Lua script of ``lua/``.

``history.py`` is the store, and ``records.py`` keeps what :mod:`history.beside` keeps. ``control.py``,
``joining.py``, and ``parking.py`` are its other
protocols. ``connection/`` is the way to a server: URLs, deployments, clients, errors. ``scripts.py`` runs
Lua, ``assembly.py`` puts its files together, ``replies.py`` reads the answers, ``spoilt.py`` says what others
have written over ours, and ``permissions.py`` what an account needs.
"""

from typing import TYPE_CHECKING

from history.support.faces import lazy

if TYPE_CHECKING:
    from history.errors import NotPermittedError
    from history.redis.history import RedisHistory
    from history.redis.scripts import HistoryLostError
else:  # for a type checker, any name would be there
    __getattr__ = lazy(__name__)

__all__ = ["HistoryLostError", "NotPermittedError", "RedisHistory"]
