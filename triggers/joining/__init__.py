"""Joins of a trigger with several destinations; :mod:`triggers.joins` is the door."""
