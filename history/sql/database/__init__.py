"""The way to a database, whichever it is.

``engine.py`` makes engines and runs steps, on a pool or inside somebody's transaction. ``errors.py`` sorts
what drivers raise, ``probe.py`` asks whether a server answers again, ``check.py`` finds settings that lose
commits, ``forks.py`` keeps connections out of forked children.
"""
