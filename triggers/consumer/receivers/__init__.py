"""Receivers for workers, in front of a provider's own receiver.

``lazy.py`` acknowledges at intervals, and ``shared.py`` is one receiver for many workers of an event loop.
"""
