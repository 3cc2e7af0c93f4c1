"""The common parts of commands: options, output, logs, loading of a user's modules.

=======================  ============================================================================
``general_options.py``   options of every command, added to those that it names
``options.py``           options of many commands, and what they open
``arguments.py``         refuses impossible values of options and arguments; reads times and rates
``configured.py``        the environment and ``doubtless.toml``, for options that are left out
``embedded.py``          the SQLite file of users who name no server
``loading.py``           the triggers of a user's module
``output.py``            tables, JSON and questions; ``logs.py``: the log
``sinks.py``             ``--sink``
=======================  ============================================================================
"""
