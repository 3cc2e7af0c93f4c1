"""One micro-batch of ``foreach_batch``: from the claims to the completion, and after a death.

====================  ================================================================================
``batch.py``          one run of a batch: its steps in their order, on the driver
``steps.py``          these steps by name, for tests that kill a driver at each of them
``ledger.py``         the record of a batch: which run of it is the present one, and how it ended
``owners.py``         the owner's tokens, which say of an entry what became of its row
``leases.py``         the lease of a batch, which the driver renews
``claims/``           the verdicts on all rows, claimed and decided in bulk on the executors
``frames.py``         what is counted, looked at again and handed over, whether Spark keeps rows or not
``second_look.py``    the few rows that are judged one by one: rejected, In Doubt, or asked about
``frame_answers.py``  what a resolver of DataFrames answers about these
``rejection.py``      what becomes of the new rows when the function has failed fatally
``sink_commits.py``   whether the sink has committed the batch, where it knows
``tally.py``          how many rows are what
``purging.py``        what has expired is deleted, after each batch
``determinism.py``    whether a stream gives the same identities when a batch comes again
``session.py``        what is asked of the session, where it is allowed: settings, kept rows, descriptions
``stopping.py``       whether a query was stopped or a job cancelled, which Spark is asked
====================  ================================================================================
"""
