"""Helps you test your triggers: see :mod:`triggers.testing`."""

from typing import TYPE_CHECKING

from history.support.faces import lazy

if TYPE_CHECKING:
    from history.contract import HistoryContract as HistoryContract
    from resolvers.contract import ResolverContract as ResolverContract
    from triggers.providers.contract import ProviderContract as ProviderContract
    from triggers.testing import *
    from triggers.testing.postgres_server import PostgresServer as PostgresServer
    from triggers.testing.redis_server import RedisServer as RedisServer
else:
    __getattr__ = lazy(__name__)
