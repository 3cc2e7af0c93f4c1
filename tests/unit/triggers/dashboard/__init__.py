"""Parts of the dashboard that need neither a history nor a browser."""
