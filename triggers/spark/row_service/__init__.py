"""A trigger that runs for each row, on the executors: :meth:`triggers.Trigger.foreach_batch`.

===============  ====================================================================
``service.py``   the handler of batches, and its tasks
``running.py``   concurrent rows of one task, in threads or on an event loop, and a limit of calls per second
``shipping.py``  how the trigger travels to the executors
===============  ====================================================================
"""
