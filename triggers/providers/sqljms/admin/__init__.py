"""What an operator sees and does: ``doubtless sqljms``."""
