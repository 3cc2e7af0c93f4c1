"""Commands for a new service: its first files, and its configuration.

``init.py`` is ``doubtless init``, ``config.py`` is ``doubtless config``, and ``migration/`` is ``doubtless
migrate``.
"""
