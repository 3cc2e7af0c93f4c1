"""``@trigger`` and the :class:`~triggers.Trigger` that it makes."""
