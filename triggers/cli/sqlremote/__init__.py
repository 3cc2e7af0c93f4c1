"""``doubtless sqlremote``."""
