"""Connections to Redis, however it is deployed.

``urls.py`` reads the URL, and ``deployments.py`` handles one server, Sentinel and Cluster. ``client.py``
opens connections, ``wires.py`` keeps them, and ``forks.py`` keeps them out of forked children. ``errors.py``
sorts errors of the driver, ``probe.py`` finds out whether a server answers again, and ``checks.py`` finds
settings that lose entries. ``durability.py`` waits until replicas have a write, and ``permissions.py`` finds
missing permissions of the account.
"""
