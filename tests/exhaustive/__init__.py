"""Whole state spaces, explored: they take seconds each, where unit tests take milliseconds."""
