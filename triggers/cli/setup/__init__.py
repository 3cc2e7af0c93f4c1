"""Commands for a new service: its first files, and what is configured."""
