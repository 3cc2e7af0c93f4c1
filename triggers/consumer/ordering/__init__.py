"""Ordered triggers: one active consumer, and groups that are worked off in order."""
