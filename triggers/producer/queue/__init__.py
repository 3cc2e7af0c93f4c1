"""The client queue: messages that wait on disk until the provider is back.

``queue.py`` is the queue, ``rows.py`` what its rows hold, ``file.py`` its file, ``drain.py`` empties it.
"""
