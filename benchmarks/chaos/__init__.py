"""Chaos: the soak on servers that fail over, move, stop, jump in time and come back with older data.

``python -m benchmarks.chaos``, or ``make soak-chaos``. What the servers themselves lost is counted, and is
the only excuse for a message that ran twice or is gone.
"""
