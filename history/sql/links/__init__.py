"""Ordered links in SQL: ``watermark.py`` keeps how far each link has come, ``history.py`` answers from it."""
