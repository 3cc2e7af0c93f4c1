"""The reports of a running process to monitoring: metrics, whether it is alive, and whether it is ready.

``answering.py`` opens an address for a process, ``endpoint.py`` answers requests, ``exposition.py`` makes
metrics from a consumer's counts, ``watched.py`` is the object that both read. ``troubles.py`` watches for
messages that fail and calls that do not end. ``counting.py`` counts outcomes, ``reporting.py`` reports the
counts of guards and Spark to the history, and ``charting.py`` adds to the dashboard's charts. ``alerts.yml``
has rules for Prometheus. Metrics need the extra ``metrics``.
"""
