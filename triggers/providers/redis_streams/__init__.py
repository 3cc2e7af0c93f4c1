"""Redis Streams.

``provider.py`` sends and opens receivers, ``receiver.py`` is one consumer, ``codec.py`` a message as fields
of a stream's entry, and one for later, ``settings.py`` the settings, ``link.py`` the edge to redis-py.
``subscriptions.py`` shows and ends subscriptions, ``permissions.py`` lists what an account needs, ``lua/``
has the steps that must be atomic.
"""

from typing import TYPE_CHECKING

from history.support.faces import lazy

if TYPE_CHECKING:
    from triggers.providers.redis_streams.provider import RedisStreams as RedisStreams
    from triggers.providers.redis_streams.settings import StreamSettings as StreamSettings
else:  # for a type checker, any name would be there
    __getattr__ = lazy(__name__)
