"""What is kept aside: where, how it is decided about, and what closes by itself.

``lot.py`` keeps messages and ``unreadable.py`` what is none. ``decisions.py`` carries out what people decide,
``outcomes.py`` records what came of it, ``sweep.py`` closes what has settled itself.
"""
