"""A service's worst days in one process: it dies, is delivered again, overlaps; its effects are counted.

``simulator.py`` is the fixture, ``exactly_once.py`` runs a trigger through everything, and ``report.py``
finds and shows what goes wrong. ``real.py`` does it with real processes, ``batches/`` with functions of
Spark. ``script.py`` says what goes wrong and where. ``course.py`` is one run of a script: of the
``subject.py`` with its own history and provider (``store.py``), in ``surroundings.py`` such as time and
threads. ``process_memory.py`` forgets what a dead process forgets, and ``tables.py`` counts effects in SQL.
"""
