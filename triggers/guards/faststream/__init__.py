"""FastStream handlers that run once for each key of a message."""

from typing import TYPE_CHECKING

from history.support.faces import lazy

if TYPE_CHECKING:
    from triggers.guards.faststream.middleware import guarded as guarded
else:  # a type checker would accept any name
    __getattr__ = lazy(__name__)
