"""A service's worst days in one process: it dies, is delivered again, overlaps; its effects are counted."""
