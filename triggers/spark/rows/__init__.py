"""Rows as messages, and back.

===================  ====================================================================
``columns.py``       the message of a row, as Spark SQL: identity and count
``messages.py``      rows as messages, in Python
``digests.py``       identities as a history stores them
``fingerprints.py``  fingerprints of rows, and whether a row has the body that came first under its uuid
``arrow.py``         the edge to pyarrow: batches of rows, and rows as batches
``kinds.py``         types that differ between Spark, Arrow and Python
``older_spark.py``   differences of Spark before 4.2
===================  ====================================================================
"""
