"""Redis Streams as a provider.

``provider.py`` opens receivers and sends, ``receiver.py`` is one consumer, ``codec.py`` a message as fields
of a stream's entry, ``keys.py`` the keys, ``later.py`` delayed messages, ``lua/`` what must happen in one
step.
"""

from typing import TYPE_CHECKING

from history.faces import lazy

if TYPE_CHECKING:
    from triggers.providers.redis_streams.provider import RedisStreams
    from triggers.providers.redis_streams.settings import StreamSettings

__all__ = ["RedisStreams", "StreamSettings"]

__getattr__ = lazy(__name__, provider=("RedisStreams",), settings=("StreamSettings",))
