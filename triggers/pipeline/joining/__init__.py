"""Joins of a trigger with several destinations; :mod:`triggers.pipeline.joining.joins` is the door."""
