"""What a running process tells monitoring: metrics, whether it lives, and whether it is ready.

``answering.py`` has a process answer at an address, ``endpoint.py`` answers requests, ``exposition.py`` makes
metrics of what a consumer has counted, ``watched.py`` is what both ask about. Needs the extra ``metrics``.
"""
