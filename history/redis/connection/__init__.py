"""The way to Redis, however it is deployed.

``urls.py`` reads the URL and ``deployments.py`` knows one server, Sentinel and Cluster; ``client.py`` opens
connections, ``wires.py`` keeps them, ``forks.py`` keeps them out of forked children. ``errors.py`` sorts what
the driver raises, ``probe.py`` asks whether a server answers again, ``checks.py`` finds settings that lose
entries, ``durability.py`` waits until replicas have a write, ``permissions.py`` asks what the account may not
do.
"""
