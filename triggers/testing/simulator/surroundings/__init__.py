"""The parts of its process that a simulated service uses: time, threads, pools and locks.

``patching.py`` replaces what all code shares (``time.sleep``, threads, pools), ``stand_ins.py`` the clocks
and locks that the service names. ``pools.py`` holds back the work that a service gives to a pool of threads.
"""
