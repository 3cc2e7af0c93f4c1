"""One micro-batch of ``foreach_batch``: from the claims to the completion, and after a crash.

====================  ================================================================================
``batch.py``          one run of a batch: its steps in their order, on the driver
``ledger.py``         the record of a batch: which run of it is the present one, and how it ended
``owners.py``         the owner's tokens, which say what happened to the row of an entry
``leases.py``         the lease of a batch, which the driver renews
``claims/``           the verdicts on all rows, claimed and decided in bulk on the executors
``frames.py``         the frames to count, look at again and hand over, whether Spark keeps rows or not
``second_look.py``    the few rows that are judged one by one: rejected, In Doubt, or for a resolver
``frame_answers.py``  the answers of a resolver of DataFrames about these
``rejection.py``      parking of the new rows after the function has failed fatally
``sink_commits.py``   whether the sink has committed the batch, if it knows
``tally.py``          counts of rows
``determinism.py``    whether a stream gives the same identities when a batch comes again
``session.py``        requests to the session, if it allows them: settings, kept rows, descriptions
====================  ================================================================================
"""
