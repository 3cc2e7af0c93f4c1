"""The claims of a micro-batch: who makes them, and what they say of each row.

=================  ==============================================================================
``verdicts.py``    the batch with its verdicts: rows brought together, or left in their partitions
``partitions.py``  whether each partition claims its own rows, or rows with one uuid come together
``bulk.py``        what a task does: claims, in bulk, and verdicts
``table.py``       the verdicts by what was found, of which the decision table has the last word
=================  ==============================================================================
"""
