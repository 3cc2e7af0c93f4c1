"""OpenTelemetry spans: ``tracing=True`` of a trigger or a producer. Only then is the library imported.

``processing.py`` spans the messages that a trigger handles, ``sending.py`` those that a producer sends, and
``context.py`` is how one knows of the other: by the properties ``traceparent`` and ``tracestate``. Names are
those of OpenTelemetry's conventions for messaging (semantic conventions 1.3x, "development"), and our own
begin with ``doubtless.``.
"""
