"""The common parts of commands: options, output, logs, loading of a user's modules.

=======================  ============================================================================
``general_options.py``   options of every command; ``options.py``: options of many, and what they open
``arguments.py``         refuses values that no option or argument can have
``signatures.py``        adds options to a command that does not name them
``configured.py``        the environment and ``doubtless.toml``, for options that are left out
``embedded.py``          the SQLite file of users who name no server
``loading.py``           the triggers of a user's module
``known_names.py``       refuses unknown names
``output.py``            tables, JSON and questions; ``logs.py``: the log; ``progress.py``: bars
``messages.py``          messages as they are printed; ``durations.py``: times and rates as they are written
``lazy_group.py``        commands that are loaded when they are called
``sinks.py``             ``--sink``; ``journals.py``: where journals are
``guarantee_levels.py``  which of the three levels a trigger reaches
=======================  ============================================================================
"""
