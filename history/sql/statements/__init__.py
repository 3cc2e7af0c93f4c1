"""The SQL text, one file for each protocol of a store."""
