"""A trigger that runs for each row, on the executors: :meth:`triggers.Trigger.foreach_batch`.

===============  ====================================================================
``service.py``   the handler of batches, and its tasks
``running.py``   concurrent rows of one task: threads, or an event loop
``pacing.py``    a limit of service calls per second
``shipping.py``  how the trigger travels to the executors
===============  ====================================================================
"""
