"""The user's function: its settings, how it is called, what its failures mean.

``options.py`` is what users may say, ``settings.py`` what they said, checked by ``checking.py`` and
``terms.py``. ``signatures.py`` reads the service's signature, ``binding.py`` fills its parameters, where
``borrowing.py`` tells whether a value may be shared, and ``delivery.py`` is what it may ask of its own run.
``failures.py`` is what its exceptions mean, ``outcome.py`` what became of a delivery. ``identity.py``,
``filters.py``, ``fingerprints.py``, ``keeping.py`` and ``tracing/`` are one option each: ``uuid=``,
``filter=``, ``fingerprint=``, ``keep_result=`` and ``tracing=``. ``lazy.py`` refuses
results whose work is not done.
"""
