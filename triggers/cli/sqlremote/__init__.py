"""``doubtless sqlremote``.

``commands.py`` has the commands, ``work.py`` what they do, ``running.py`` how links run outside of a
consumer.
"""
