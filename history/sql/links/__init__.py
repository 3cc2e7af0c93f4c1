"""Ordered links in SQL: ``watermark.py`` stores how far each one has come, ``history.py`` answers from it."""
