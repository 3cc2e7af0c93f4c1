"""What it means: the user's last word on a message that the document history cannot decide."""
