"""A micro-batch function's worst days: its driver dies at each step, and Spark calls again."""
