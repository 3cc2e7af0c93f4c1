"""The protocol of a link: pure. It is given what happened and the time, and answers with what is to be done.

``publisher.py`` is the sending end, ``subscriber.py`` the receiving end with its state in ``inbox.py`` and
its rules in ``verdicts.py`` and ``patience.py``. ``packet.py`` is a message as bytes, with ``header.py``,
``parts.py`` (transactions cut to size) and ``sealing.py`` (compression and signature). ``chain.py`` and
``alarms.py`` find out that an end is not the one that was known; ``schedule.py`` says when to send.
"""
