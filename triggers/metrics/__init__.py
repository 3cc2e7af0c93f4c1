"""What a running consumer tells monitoring: metrics, whether it lives, and whether it is ready.

``endpoint.py`` answers requests, ``exposition.py`` makes metrics of what was counted, ``watched.py`` is what
both ask about. Needs the extra ``metrics``.
"""
