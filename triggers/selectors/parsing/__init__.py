"""From the text of a condition to its tree.

``tokens.py`` makes words with ``numbers.py``, ``cursor.py`` walks over them, ``parser.py`` makes the tree
of ``tree.py``; ``names.py`` and ``values.py`` define what can be named, ``kinds.py`` and ``like.py`` check.
"""
