"""Any JMS provider, through its own Java client in a JVM inside this process (JPype)."""

from typing import TYPE_CHECKING

from history.faces import lazy

if TYPE_CHECKING:
    from triggers.providers.jms.provider import JmsProvider
    from triggers.providers.jms.settings import JmsSettings

__all__ = ["JmsProvider", "JmsSettings"]

__getattr__ = lazy(__name__, provider=("JmsProvider",), settings=("JmsSettings",))
