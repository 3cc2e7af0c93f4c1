"""Any JMS provider, through its Java client in a JVM inside this process (JPype).

``provider.py`` has the class that users name, and the same for asyncio. ``receiver.py`` is one consumer,
``window.py`` one of its sessions, ``sender.py`` sends, ``codec.py`` turns messages, ``targets.py`` reads the
names of destinations, ``settings.py`` the settings. ``link.py`` connects and translates errors once;
``jvm.py`` is the JVM, and the only import of JPype.
"""

from typing import TYPE_CHECKING

from history.support.faces import lazy

if TYPE_CHECKING:
    from triggers.providers.jms.provider import JmsProvider as JmsProvider
    from triggers.providers.jms.settings import JmsSettings as JmsSettings
else:  # for a type checker, any name would be there
    __getattr__ = lazy(__name__)
