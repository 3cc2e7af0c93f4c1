"""The security log: what people did, from where, and whether they were allowed to.

``recorder.py`` writes a record to the history, the log and a file, one JSON object a line. ``gathering.py``
counts repeated records, so that nobody can fill the history with them. ``commands.py`` records what the user
of the command line decides and commands.
"""
