"""A dashboard over an empty history in a file, and browsers of people with each role."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel
from starlette.applications import Starlette

from history import Message, open_history
from history.beside.kept import KeepsBeside
from history.bridge import drive
from history.store.parking import Evidence, Parked, ParkedKind, parked_id
from tests.integration.dashboard.browser import Browser, keys_of
from triggers import FatalError, trigger
from triggers.consumer.options import AnyTrigger
from triggers.dashboard import Access, Role, Token, create_app

#: The messages of these tests were parked at this time.
NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)

TOKENS = {role: Token.drawn(f"a {role.word}", role) for role in Role}


class Clock:
    """A clock that shows the same time until a test sets it."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Order(BaseModel):
    id: str


@dataclass(slots=True)
class Site:
    """A dashboard, its history, and the runs of its service."""

    url: str
    store: KeepsBeside
    done: list[str] = field(default_factory=list[str])
    app: Starlette = field(init=False)
    browsers: list[Browser] = field(default_factory=list[Browser])

    def serve(
        self, triggers: Sequence[AnyTrigger], access: Access | None = None, *, providers: Sequence[str] = ()
    ) -> None:
        """Serve these triggers instead of the earlier ones. By default all :data:`TOKENS` may sign in."""
        if hasattr(self, "app"):
            self.app.state.operations.close()
        self.app = create_app(
            self.url,
            access=access or Access(tokens=list(TOKENS.values())),
            triggers=triggers,
            providers=providers,
            store=self.store,
            background=False,
        )

    def browser(self, **how: Any) -> Browser:
        """Return the browser of somebody who has not signed in."""
        made = Browser(self.app, **how)
        self.browsers.append(made)
        return made

    def signed_in(self, role: Role) -> Browser:
        made = self.browser()
        assert made.sign_in(TOKENS[role].secret).status_code == 303
        return made

    def park(
        self, uuid: str, body: Any = None, *, minutes: int = 0, store: KeepsBeside | None = None, **more: Any
    ) -> Parked:
        """Park a message In Doubt, as if its worker had died: in a store, by default in the site's store."""
        store, claimed_as = (self.store, "book") if store is None else (store, more["trigger_name"])
        claim = drive(store.claim(claimed_as, [uuid], f"host-1:42:{uuid}"))[0]
        message = Message(body={"id": uuid} if body is None else body, uuid=uuid)
        known: dict[str, Any] = {
            "id": parked_id("book", message),
            "trigger_name": "book",
            "kind": ParkedKind.IN_DOUBT,
            "reason": "IN DOUBT: an earlier run did not finish; parked (row 10)",
            "uuid": uuid,
            "destination": "orders",
            "message": message,
            "evidence": Evidence(
                delivery_count=2, owner=f"host-1:42:{uuid}", started_at=NOON, fence=claim.fence
            ),
            "parked_at": NOON + timedelta(minutes=minutes),
        }
        parked = Parked.model_validate(known | more)
        drive(store.parking.park([parked]))
        return parked

    def ids(self) -> list[str]:
        return [one.id for one in drive(self.store.parking.list())]

    def group(self, browser: Browser) -> str:
        (key,) = keys_of(browser.page("/parked"))
        return key


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """A dashboard with the trigger ``book``. Its service fails for the order "fails"."""
    url = f"sqlite:///{tmp_path}/history.db"
    made = Site(url, open_history(url))

    @trigger("orders", name="book")
    def book(order: Order) -> None:
        if order.id == "fails":
            raise FatalError("no such customer")
        made.done.append(order.id)

    made.serve([book])
    yield made
    for browser in made.browsers:
        browser.close()
    made.app.state.operations.close()
    drive(made.store.close())


@pytest.fixture
def operator(site: Site) -> Browser:
    return site.signed_in(Role.OPERATOR)
