"""The identity of users, their rights, and the length of their sessions.

``roles.py`` and ``settings.py`` define who may do what, ``sessions.py`` who is signed in, ``gate.py`` who
makes a request, and ``throttle.py`` who has to wait after wrong tokens. ``serving.py`` is the server, which
does not wait long for a request. ``records.py`` makes records of all of it.
"""
