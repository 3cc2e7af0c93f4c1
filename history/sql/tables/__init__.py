"""The tables; ``history.py``, ``watermark.py`` and ``offsets.py`` describe their contents.

``making.py`` creates them; before that, ``columns.py`` refuses tables of another program. ``script.py``
prints them as SQL, and ``migrating.py`` brings older ones up to date.
"""
