"""Limbo: messages of a failed batch, kept aside to be sent again later."""
