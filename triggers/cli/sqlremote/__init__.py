"""``doubtless sqlremote``.

``commands.py`` has the commands, ``work.py`` and ``comparing.py`` their work, and ``running.py`` runs links
outside of a consumer.
"""
