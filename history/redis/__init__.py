"""The document history in Redis: each call is one Lua script of ``lua/``.

``history.py`` is the store, and ``records.py`` stores the data of :mod:`history.beside`. ``connection/``
has everything to reach a server: URLs, deployments, clients, errors. ``scripts.py`` runs Lua, ``assembly.py``
puts its files together, ``replies.py`` reads the replies, ``spoilt.py`` describes data that other programs
overwrote, and ``permissions.py`` lists the needs of an account.
"""

from typing import TYPE_CHECKING

from history.support.faces import lazy

if TYPE_CHECKING:
    from history.errors import NotPermittedError as NotPermittedError
    from history.redis.history import RedisHistory as RedisHistory
    from history.redis.scripts import HistoryLostError as HistoryLostError
else:  # for a type checker, any name would be there
    __getattr__ = lazy(__name__)
