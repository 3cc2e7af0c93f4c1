"""One micro-batch: claim, second look, run, complete, purge."""
