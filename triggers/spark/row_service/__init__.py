"""A trigger that runs for each row, on the executors."""
