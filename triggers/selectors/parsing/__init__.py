"""From the text of a condition to its tree.

``tokens.py`` makes words and numbers, and walks over them; ``parser.py`` makes the tree of ``nodes.py``;
``values.py`` defines what can be named and what kind it has, and ``like.py`` checks patterns.
"""
