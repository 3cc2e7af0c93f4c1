"""Rows as messages, and back.

===================  ====================================================================
``columns.py``       the message of a row, as Spark SQL: identity and count
``messages.py``      rows as messages, in Python
``fingerprints.py``  fingerprints of rows, and which row's body came first
``digests.py``       identities as digests
``arrow.py``         the edge to pyarrow: batches of rows, and rows as batches
``kinds.py``         types that differ between Spark, Arrow and Python
``older_spark.py``   differences of Spark before 4.2
===================  ====================================================================
"""
