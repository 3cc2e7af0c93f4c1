"""One message from its claim to its answer; ``pipeline.py`` knows the order of the steps.

``judge.py`` finds out what a message is (``bodies.py`` and ``finding.py`` are what it looks at),
``execution.py`` runs the service, ``end.py`` says how that ended and ``completion.py`` writes it down;
``run.py`` is the one message on that way. ``routing.py`` picks the service, ``leases.py`` renews,
``undecided.py`` has claims without an answer, ``duplicates.py`` tells of duplicates, ``tries.py`` says when a
message comes again. ``atomic.py`` does all of it in one transaction, ``blaming.py`` says whose fault it is
that one does not commit, ``joining/`` does it with several messages; ``protocol.py`` is what consumers need
of either. ``sharing/`` saves round trips, ``parking/`` keeps aside.
"""
