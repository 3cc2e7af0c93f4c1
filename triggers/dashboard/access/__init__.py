"""Who somebody is, what they may do, and for how long."""
