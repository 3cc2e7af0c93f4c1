"""Joins of a trigger with several destinations; :mod:`triggers.pipeline.joining.joins` is the door.

``pipeline.py`` is that of a join: ``parts.py`` takes a message of a join of all, ``only_one.py`` of a join of
one. ``composite.py`` makes one message of the parts, ``time_out.py`` parks those that waited in vain.
"""
