"""One message from its claim to its answer; ``pipeline.py`` knows the order of the steps."""
