"""The log of what a publisher commits.

``publication.py`` appends to it inside the application's transaction, ``collecting.py`` moves into it what
triggers have captured, ``log.py`` reads it and deletes what every peer has, ``envelope.py`` turns a message
into an operation of it.
"""
