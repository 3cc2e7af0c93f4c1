"""The main job: order messages, booked once each, although they are sent twice and the worker is killed.

``job.py`` is the job, ``ground.py`` its databases and servers, ``orders.py`` its messages; ``booking.py`` and
``atomic_booking.py`` are its services, and ``pipeline.py`` its last part in Spark.
"""
