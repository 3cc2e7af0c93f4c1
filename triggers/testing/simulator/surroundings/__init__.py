"""What a simulated service meets of its process: time, threads, pools and locks.

``patching.py`` replaces what all code shares (``time.sleep``, threads, pools), ``stand_ins.py`` the clocks
and locks that the service names. ``pools.py`` has what a service leaves to a pool of threads.
"""
