"""A trigger that runs for each row, on the executors: :meth:`triggers.Trigger.foreach_batch`.

===============  ====================================================================
``service.py``   the handler of batches, and what its tasks do
``shipping.py``  how the trigger travels to the executors
===============  ====================================================================
"""
