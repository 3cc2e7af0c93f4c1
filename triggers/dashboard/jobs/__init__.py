"""Decisions in progress, while pages show their progress.

``jobs.py`` carries them out in short turns, of which a few run concurrently, and ``job.py`` is one decision
with its progress.
"""
