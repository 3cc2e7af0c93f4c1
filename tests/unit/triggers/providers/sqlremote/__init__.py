"""Tests of the pure core of a link, without a database and without a real carrier."""
