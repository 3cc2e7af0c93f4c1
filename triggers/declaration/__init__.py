"""``@trigger`` and the :class:`~triggers.Trigger` that it makes.

``decorator.py`` is ``@trigger``, ``trigger.py`` the class, and ``assembly.py`` puts its pipeline together.
``journal.py``, ``results.py`` and ``shadow.py`` extend that pipeline if ``journal=``, ``keep_result=`` and
``shadow=`` are set. ``waiting.py`` waits for a run that is alive elsewhere.
"""
