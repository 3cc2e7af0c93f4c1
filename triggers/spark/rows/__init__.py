"""Rows as messages, and back.

===================  ====================================================================
``columns.py``       what a row says of its message, as Spark SQL: identity and count
``messages.py``      rows as messages, in Python
``digests.py``       identities as a history stores them
``fingerprints.py``  fingerprints of rows, by which another body under one uuid is noticed
``first_bodies.py``  whether a row has the body that came first, which the history is asked in bulk
``arrow.py``         the edge to pyarrow: batches of rows, and rows as batches
``kinds.py``         types that Spark, Arrow and Python do not have alike
``older_spark.py``   what Spark before 4.2 does otherwise
===================  ====================================================================
"""
