"""Decisions in progress, while pages show their progress.

``jobs.py`` carries them out in short turns. A few turns run concurrently. ``job.py`` is one decision with its
progress.
"""
