"""The way of one message from its claim to its acknowledgement; ``pipeline.py`` holds the order of the steps.

``judge.py`` decides about a message, with the help of ``bodies.py`` and ``finding.py``. ``execution.py`` runs
the service, ``end.py`` describes how the service ended, and ``completion.py`` records it. ``run.py`` is the
state of one message. ``routing.py`` picks the service, ``leases.py`` renews leases, and ``undecided.py``
remembers claims without an answer. ``duplicates.py`` reports duplicates, and ``tries.py`` computes when a
message comes again. ``atomic.py`` does everything in one transaction, and ``blaming.py`` finds the cause when
that transaction does not commit. ``joining/`` handles several messages as one, and ``protocol.py`` is what
consumers need of both pipelines. ``sharing/`` saves round trips, and ``parking/`` parks messages.
"""
