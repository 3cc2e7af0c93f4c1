"""SQL-JMS: queues and topics in your own database; see :class:`~triggers.providers.sqljms.provider.SqlJms`.

``tables.py`` is what lies in the database, ``sending.py`` the way in, ``entries.py`` the way out,
``receiver.py`` one consumer, ``clients.py`` consumers as the database knows them, ``places.py`` queues,
topics and subscriptions, ``codec.py`` a message as a row, ``waking.py`` what consumers wait for.
"""
