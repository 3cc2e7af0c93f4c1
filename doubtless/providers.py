"""The messaging systems: see :mod:`triggers.providers`."""

from typing import TYPE_CHECKING

from history.support.faces import lazy

if TYPE_CHECKING:
    from triggers.providers import *
    from triggers.providers.jms import JmsProvider as JmsProvider
    from triggers.providers.jms import JmsSettings as JmsSettings
    from triggers.providers.memory import MemoryProvider as MemoryProvider
    from triggers.providers.redis_streams import RedisStreams as RedisStreams
    from triggers.providers.sqljms import SqlJms as SqlJms
    from triggers.providers.sqlremote import Change as Change
    from triggers.providers.sqlremote import Links as Links
    from triggers.providers.sqlremote import Publication as Publication
    from triggers.providers.sqlremote import apply_changes as apply_changes
else:
    __getattr__ = lazy(__name__)
