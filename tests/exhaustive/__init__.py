"""Tests that explore whole state spaces: each takes seconds, while a unit test takes milliseconds."""
