"""What workers receive from, besides a receiver of the provider's own.

``lazy.py`` acknowledges now and then, ``shared.py`` is one receiver for many workers of an event loop.
"""
