"""The tables: definitions, and how they are made and changed."""
