"""A consolidated database, and two remotes that each get the shops of their representative."""

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from history.bridge import drive
from tests.integration.providers.sqlremote.link_ends import Clock, Side
from tests.integration.providers.sqlremote.test_sqlremote_capture_conflicts import keep
from tests.unit.helpers.lossy import LossyCarrier

SHOPS = ["shops subscribe by rep", "kinds"]

#: The tables of the remotes. The remotes have no subscribers.
PLAIN = ["shops", "kinds", "sales"]

Three = tuple[Side, Side, Side]


def create(side: Side) -> None:
    side.execute("CREATE TABLE shops (id INTEGER PRIMARY KEY, name TEXT, rep TEXT)")
    side.execute("CREATE TABLE kinds (id INTEGER PRIMARY KEY, name TEXT)")
    drive(side.links.capture("orders"))


@contextmanager
def subscribed(urls: Sequence[str], tmp_path: Path) -> Generator[Three]:
    """A consolidated database, and the remotes of Ann and of Bob."""
    shared: dict[str, Any] = {"carrier": LossyCarrier(), "clock": Clock()}
    told: dict[str, Any] = {"tables": SHOPS, "capture": True}
    own = {"orders": {"subscription": "ann"}, "third": {"subscription": "bob"}}
    centre = Side("c", "a", urls[0], names=("orders", "third"), settings=told, own=own, **shared)
    told = {"tables": ["shops", "kinds"], "capture": True}
    ann = Side("a", "c", urls[1], settings=dict(told), **shared)
    bob = Side("third-c", "c-third", f"sqlite:///{tmp_path}/bob.db", settings=dict(told), **shared)
    for side in (centre, ann, bob):
        side.service = partial(keep, tables=["shops", "kinds"])
        create(side)
    yield centre, ann, bob
    for side in (centre, ann, bob):
        side.leave()
        side.engine.dispose()


def settle(three: Three) -> None:
    for _ in range(3):
        for side in three:
            for link in side.names:
                side.run(link)
        three[0].clock.pass_by()
    assert [outcome for side in three for outcome in side.outcomes if outcome.error is not None] == []


def shops(side: Side) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in side.query("SELECT * FROM shops ORDER BY id")]
