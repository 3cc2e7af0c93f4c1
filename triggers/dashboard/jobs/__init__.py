"""Decisions in progress, while pages show their progress.

``jobs.py`` carries them out in short turns, ``slots.py`` says how many turns run concurrently, and ``job.py``
is one decision with its progress.
"""
