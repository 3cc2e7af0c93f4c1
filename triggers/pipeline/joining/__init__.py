"""Joins of a trigger with several destinations; :mod:`triggers.pipeline.joining.joins` is the entry point.

``pipeline.py`` is the pipeline of a join, and parks the parts that waited too long. ``parts.py`` takes a
message of a join of all, ``joins.py`` a message of a join of one. ``composite.py`` makes one message of the
parts.
"""
