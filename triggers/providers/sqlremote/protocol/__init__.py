"""The protocol of a link: pure. It gets the events and the time, and returns the actions.

``publisher.py`` is the sending end, ``subscriber.py`` the receiving end with its state in ``inbox.py`` and
its rules in ``verdicts.py`` and ``patience.py``. ``packet.py`` is a message as bytes, with ``header.py``,
``parts.py`` (transactions cut to size) and ``sealing.py`` (compression and signature). ``chain.py`` and
``alarms.py`` detect that an end is not the known one; ``schedule.py`` says when to send.
"""
