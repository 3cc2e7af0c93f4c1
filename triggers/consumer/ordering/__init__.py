"""Ordered triggers: one active consumer, and groups that are processed in order.

``active.py`` decides which consumer is active, and ``groups.py`` which message of a group may run.
``workers.py`` receives and runs messages, and ``handover.py`` passes them from one to the other.
"""
