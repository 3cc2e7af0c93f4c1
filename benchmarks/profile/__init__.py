"""Where the time goes: of one message, of one atomic message, of a message on Kafka, of a row in Spark.

``python -m benchmarks.profile`` is of a message on Redis, ``python -m benchmarks.profile.atomic`` of one on
PostgreSQL, ``python -m benchmarks.profile.kafka`` of one on Apache Kafka, and
``python -m benchmarks.profile.spark`` of a row in ``foreach_batch``.
"""
