"""``doubtless sqljms``."""
