"""What is kept beside the entries: each kind is written once, over the records of any store.

``kept`` puts the kinds together, for a store that has :class:`~history.store.records.Records`. ``results`` is
what the first run of a uuid answered, ``fingerprints`` says which body came first with it. ``journal`` has one
line for each verdict that is not plain, and the security log. ``progress`` says how far each query has come.
"""
