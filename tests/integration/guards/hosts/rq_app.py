"""A job of RQ, with the decorator that docs/how-to/guard-rq-and-arq-jobs.md gives."""

import os
import re
from pathlib import Path
from typing import Any

from rq import Retry

from tests import ROOT
from tests.fixtures.ledger import Ledger

PAGE = ROOT / "docs/how-to/guard-rq-and-arq-jobs.md"

_recipe: dict[str, Any] = {}
_block = re.search(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
assert _block is not None
exec(_block[1], _recipe)  # noqa: S102  (what readers copy is what is tested)

effects = Ledger(Path(os.environ["EFFECTS"]))


@_recipe["once"](os.environ["HISTORY"])
def book(order: str, *, fails: int = 0) -> str:
    """Book an order. The first ``fails`` runs fail."""
    effects.note(order)
    if effects.counts()[order] <= fails:
        raise OSError("busy")
    return f"booked {order}"


@_recipe["once"](os.environ["HISTORY"])
def poll(order: str) -> Any:
    """Look for an order. The first time, ask RQ to look again."""
    effects.note(order)
    return f"seen {order}" if effects.counts()[order] == 2 else Retry(max=3)
