"""A micro-batch function's worst days: its driver dies at each step, and Spark calls again.

``exactly_once_batch.py`` runs a function through everything, ``course.py`` is one run of a script.
"""
