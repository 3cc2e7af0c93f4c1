"""Ordered triggers: one active consumer, and groups that are worked off in order.

``active.py`` says which consumer is the active one, ``groups.py`` what of each group may run. ``workers.py``
receive and run, and ``handover.py`` is between the two.
"""
