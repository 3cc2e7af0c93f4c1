"""All tests; ``make test`` runs them, ``make prove`` those that take long."""

from pathlib import Path

#: The checkout.
ROOT = Path(__file__).parents[1]
