"""Chaos: the soak on servers that fail over, move, stop, jump in time and come back with older data.

``python -m benchmarks.chaos``, or ``make soak-chaos``. It counts what the servers themselves lost.
Only such a loss excuses a message that ran twice or is gone.
"""
