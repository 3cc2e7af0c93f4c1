"""Code that providers of several brokers share.

``url.py`` reads the URL: hosts to try, account, TLS. ``connection.py`` is a connection with its own thread,
``push_receiver.py`` a receiver over a broker that pushes. ``delivery.py`` decodes any delivery without ending
a consumer, ``codec.py`` has the bodies, charsets and checks of both AMQP wires. ``plain.py`` makes the usual
message without validation. ``sending.py`` prepares messages to send, ``trust.py`` knows what a broker's
delivery count is worth, ``headers.py`` has messages as text headers. ``driven.py`` and ``driver_thread.py``
serve asyncio by a blocking form in a thread.
"""
