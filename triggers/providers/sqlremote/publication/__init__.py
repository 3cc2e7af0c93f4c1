"""The log of what a publisher commits.

``publication.py`` appends to it inside the application's transaction, ``log.py`` reads it and deletes what
every peer has, ``envelope.py`` is a message as an operation of it.
"""
