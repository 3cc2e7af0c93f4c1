"""What people do with triggers: look, decide, run again. The command line and the dashboard call it.

=================  ========================================================================
``choosing.py``    which parked messages are meant; ``running.py`` runs them
``decisions.py``   what people have decided, and what became of it
``importing.py``   parks the messages of a dead-letter destination; ``letters.py`` reads a letter
``pacing.py``      limits how many messages run in a second
``resolving.py``   asks a trigger's resolver now, and changes nothing
``stories.py``     the facts about one message; ``entries.py``: its entry as it is shown
``messages.py``    parked and other messages as they are printed; ``comparing.py``: their difference
``status.py``      what consumers report, and commands for them
``guarantees.py``  which of the three levels a trigger reaches
``journals.py``    where journals are; it also refuses unknown names
``looking.py``     opens a store only to look into it; ``sizes.py``: what a store needs
=================  ========================================================================
"""
