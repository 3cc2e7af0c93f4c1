"""Metrics of the streaming queries of a driver, for Prometheus: :func:`~triggers.spark.watch`.

=================  ==========================================================================
``watch.py``       ``watch``: begins to listen and to answer, and ends it
``listener.py``    the StreamingQueryListener: Spark's events
``queries.py``     the state of each query by these events, in numbers
``exposition.py``  the metrics of these, and of the handlers' counts
=================  ==========================================================================

Needs the extra ``metrics`` if metrics are requested.
"""
