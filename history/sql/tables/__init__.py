"""The tables: ``history.py`` and ``watermark.py`` say what lies in them, ``making.py`` creates them.

``columns.py`` refuses tables of another program before that.
"""
