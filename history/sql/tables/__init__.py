"""The tables: ``history.py``, ``watermark.py`` and ``offsets.py`` say what lies in them.

``making.py`` creates them; ``columns.py`` refuses tables of another program before that.
"""
