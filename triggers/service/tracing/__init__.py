"""OpenTelemetry spans: ``tracing=True`` of a trigger or a producer. Only then is the library imported.

``processing.py`` makes spans for the messages that a trigger handles. ``context.py`` makes them for the
messages of a producer, and connects both by the properties ``traceparent`` and ``tracestate``. Names follow
OpenTelemetry's conventions for messaging (semantic conventions 1.3x, "development"), and our own names begin
with ``doubtless.``.
"""
