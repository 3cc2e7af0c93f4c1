"""A trigger that runs for each row, on the executors: :meth:`triggers.Trigger.foreach_batch`.

===============  ====================================================================
``service.py``   the handler of batches, and what its tasks do
``running.py``   rows of one task beside each other: threads, or an event loop
``pacing.py``    at most so many calls of the service per second
``shipping.py``  how the trigger travels to the executors
===============  ====================================================================
"""
