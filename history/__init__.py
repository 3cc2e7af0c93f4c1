"""What happened: messages, the document history that remembers them, and the parking lot."""
