"""The contract of each kind of data beside the entries, over the records of every store."""
