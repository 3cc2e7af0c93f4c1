"""Metrics of the streaming queries of a driver, for Prometheus: :func:`~triggers.spark.watch`.

=================  ==========================================================================
``watch.py``       ``watch``: begins to listen and to answer, and ends it
``queries.py``     the StreamingQueryListener, and the state of each query by Spark's events, in numbers
``exposition.py``  the metrics of these, and of the handlers' counts
=================  ==========================================================================

Needs the extra ``metrics`` if metrics are requested.
"""
