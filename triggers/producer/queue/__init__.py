"""The client queue: messages that wait on disk until the provider is back.

``queue.py`` is the queue, ``rows.py`` encodes its rows, ``file.py`` sets up its file, ``drain.py`` empties
it.
"""
