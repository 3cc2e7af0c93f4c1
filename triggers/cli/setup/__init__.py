"""Commands for a new service: its first files, and what is configured.

``init.py`` is ``doubtless init``, ``config.py`` is ``doubtless config``.
"""
