"""The document history in Redis: each call is one Lua script of ``lua/``.

``history.py`` is the store; ``control.py``, ``joining.py``, ``parking.py`` and ``progress.py`` are its other
protocols. ``urls.py`` makes a client from a URL, ``deployments.py`` one for Sentinel or a Cluster, and
``client.py`` calls it. ``wires.py`` keeps connections for scripts, ``forks.py`` keeps all of them out of
forked children. ``scripts.py`` runs Lua, ``assembly.py`` puts its files together, ``replies.py`` reads the
answers. ``errors.py`` sorts what redis-py raises, ``probe.py`` finds out who answers.
"""

from typing import TYPE_CHECKING

from history.support.faces import lazy

if TYPE_CHECKING:
    from history.redis.errors import NotPermittedError
    from history.redis.history import RedisHistory
    from history.redis.scripts import HistoryLostError
else:  # for a type checker, any name would be there
    __getattr__ = lazy(
        __name__, errors=("NotPermittedError",), history=("RedisHistory",), scripts=("HistoryLostError",)
    )

__all__ = ["HistoryLostError", "NotPermittedError", "RedisHistory"]
