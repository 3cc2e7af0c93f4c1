"""Metrics of the streaming queries of a driver, for Prometheus: :func:`~triggers.spark.watch`.

=================  ==========================================================================
``watch.py``       ``watch``: begins to listen and to answer, and ends it
``listener.py``    the StreamingQueryListener: Spark's events
``queries.py``     what they say of each query, in numbers
``exposition.py``  the metrics of these, and of what handlers have counted
=================  ==========================================================================

Needs the extra ``metrics`` where somebody asks for metrics.
"""
