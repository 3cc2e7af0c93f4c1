"""The document history in Redis: each call is one Lua script of ``lua/``.

``history.py`` is the store; ``control.py``, ``joining.py``, ``parking.py``, ``progress.py`` are its other
protocols; ``client.py``, ``wires.py``, ``urls.py`` the connections; ``scripts.py`` runs Lua; ``replies.py``
reads what it answers.
"""

from typing import TYPE_CHECKING

from history.faces import lazy

if TYPE_CHECKING:
    from history.redis.history import RedisHistory

__all__ = ["RedisHistory"]

__getattr__ = lazy(__name__, history=("RedisHistory",))
