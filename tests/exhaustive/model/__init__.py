"""A model of workers, broker and history that is small enough to be explored whole.

The decisions are not the model's: it calls the functions of :mod:`history.entry` and
:mod:`triggers.detection.table` that the stores and the pipeline run on, or a mutant of one of them. What is
modelled is everything around them: workers that take the pipeline's steps one at a time and may stop for a
while or for ever between any two, a broker that delivers again, a publisher that sends twice, a network that
repeats a write late, and leases that run out.

Each state is explored once, breadth first, so a :class:`ViolationError` comes with a shortest path to it.
"""
