"""Parked messages: where they are, how an operator decides about them, and which copies close automatically.

``lot.py`` parks messages, and deliveries that are not messages. ``failures.py`` gives a parked copy the error
of an earlier delivery. ``decisions.py`` carries out people's
decisions and records the results, and ``sweep.py`` closes copies that are already settled.
"""
