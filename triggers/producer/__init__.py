"""Sending: ``producer.py`` with its client queue in ``queue/``.

``sender.py`` sends with retries, ``lines.py`` reads messages from JSON Lines, ``request_reply.py`` waits for
replies, and answers a duplicate request with the first reply. ``delivery_failure.py`` is the event of a
message that is given up, ``settings.py`` the settings.
"""
