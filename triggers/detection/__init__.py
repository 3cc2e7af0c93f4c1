"""The decision: pure functions from the facts about a message to what is done with it.

``table.py`` is the decision table, and ``aftermath.py`` the table of what follows a run. ``sentences.py``
turns both into sentences for people. ``suspension.py`` is the third table: who resumes a suspended trigger,
and what that costs. ``facts.py`` has the facts that the table reads, and ``causes.py`` the causes for which a
message is given up.
"""
