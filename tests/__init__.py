"""All tests; ``fixtures/everyday.py`` says which of them ``make test`` runs, and which ``make test-all``."""

from pathlib import Path

#: The checkout.
ROOT = Path(__file__).parents[1]
