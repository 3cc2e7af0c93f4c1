"""The decision: pure functions from what is known of a message to what is done with it.

``table.py`` is the decision table, ``aftermath.py`` what follows a run, ``wording.py`` both as
the documentation shows them, and ``sentences.py`` what they say to people.
``suspension.py`` is the third table: who resumes a suspended trigger, and what that costs.
``causes.py`` are those for which a message is given up.
"""
