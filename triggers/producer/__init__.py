"""Sending: ``producer.py`` with its client queue in ``queue/``.

``sender.py`` sends with retries, ``lines.py`` keep the order of each destination, ``request_reply.py`` waits
for replies, and ``kept_reply.py`` gives a duplicate request the first one's. ``delivery_failure.py`` is the
event of a message that is given up, ``settings.py`` what can be set.
"""
