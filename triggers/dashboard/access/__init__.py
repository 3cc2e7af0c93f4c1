"""Who somebody is, what they may do, and for how long.

``roles.py`` and ``settings.py`` say who may, ``sessions.py`` who is signed in, ``gate.py`` who asks at the
moment, ``throttle.py`` who has to wait after wrong tokens. ``records.py`` has all of it recorded.
"""
