"""The client queue: messages that wait on disk until the provider is back.

``queue.py`` is the queue, ``file.py`` its file, ``drain.py`` empties it.
"""
