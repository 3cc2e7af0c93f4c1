"""Rows as messages, and back.

==================  ====================================================================
``columns.py``      what a row says of its message, as Spark SQL: identity and count
``messages.py``     rows as messages, in Python
``digests.py``      identities as a history stores them
``arrow.py``        the edge to pyarrow: batches of rows, and rows as batches
``kinds.py``        types that Spark, Arrow and Python do not have alike
``older_spark.py``  what Spark before 4.2 does otherwise
==================  ====================================================================
"""
