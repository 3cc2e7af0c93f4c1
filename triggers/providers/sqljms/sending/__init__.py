"""The way in: messages into the tables, in the sender's own transaction."""
