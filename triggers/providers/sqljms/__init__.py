"""SQL-JMS: queues and topics in your own database; see :class:`~triggers.providers.sqljms.provider.SqlJms`.

``provider.py`` sends and opens receivers, ``codec.py`` is a message as a row, ``settings.py`` the
settings, ``link.py`` the edge to the database. ``tables.py`` has the tables, ``statements.py`` the
statements, ``destinations.py`` queues, topics and subscriptions, ``properties.py`` typed properties,
``waking.py`` wakes waiting consumers. ``sending/`` is the way in, ``receiving/`` the way out. In ``limbo/``
messages wait to be sent or tried again, and ``admin/`` has the views and actions of an operator.
``inspection.py`` counts waiting messages, and lists what a role needs.
"""

from typing import TYPE_CHECKING

from history.support.faces import lazy

if TYPE_CHECKING:
    from triggers.providers.sqljms.provider import SqlJms as SqlJms
    from triggers.providers.sqljms.settings import SqlJmsSettings as SqlJmsSettings
else:
    __getattr__ = lazy(__name__)
