"""The claims of a micro-batch: which task makes them, and the verdict on each row.

=================  ==============================================================================
``verdicts.py``    the batch with its verdicts: rows brought together, or left in their partitions
``partitions.py``  whether each partition claims its own rows, or rows with one uuid come together
``bulk.py``        the work of a task: claims, in bulk, and verdicts
``findings.py``    findings and verdicts, as the small numbers that tasks work with
=================  ==============================================================================
"""
