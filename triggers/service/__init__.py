"""The user's function: its settings, how it is called, what its failures mean.

``options.py`` declares the options that users may set, and ``settings.py`` holds their values, checked by
``checking.py`` and ``terms.py``. ``signatures.py`` reads the service's signature, and ``binding.py`` fills
its parameters. ``borrowing.py`` finds out whether a value may be shared. ``delivery.py`` shows a service its
present run, ``failures.py`` classifies its exceptions and refuses results that are not computed yet,
``places.py`` finds where in the user's code an exception was raised, and ``outcome.py`` is the result of a
delivery. ``identity.py``, ``filters.py``, ``fingerprints.py``,
``keeping.py`` and ``tracing.py`` are one option each: ``uuid=``, ``filter=``, ``fingerprint=``,
``keep_result=`` and ``tracing=``.
"""
