"""A model of workers, broker and history that is small enough to explore completely.

The decisions come from production code: the model calls the functions of :mod:`history.entry` and
:mod:`triggers.detection.table`, as the stores and the pipeline do, or a mutant of one of them. The model adds
everything around them: workers that take the pipeline's steps one at a time, and may stop for a while or for
ever between any two steps; a broker that delivers again; a publisher that sends twice; a network that repeats
a write late; and leases that run out.

Each state is explored once, breadth first. So a :class:`ViolationError` has a shortest path to its state.
"""
