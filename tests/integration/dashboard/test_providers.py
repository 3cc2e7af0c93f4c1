"""The dashboard shows how many messages wait at the providers."""

from collections.abc import Sequence
from pathlib import Path
from typing import cast

import pytest

from history import open_history
from history.bridge import drive
from history.support.urls import origin
from tests.fixtures.waiting import eventually
from tests.integration.dashboard.browser import keys_of, text_of
from tests.integration.dashboard.conftest import Site
from tests.integration.dashboard.test_api import bearer
from triggers import Message, open_provider, trigger
from triggers.consumer.options import AnyTrigger
from triggers.dashboard import Role
from triggers.dashboard.operations import Operations
from triggers.dashboard.places import Places, ProviderAnswer, Waiting, addresses_of
from triggers.providers.backlog import Backlog

#: Nobody listens there.
AWAY = "redis://user:secret@127.0.0.1:1/0"


@trigger("orders", name="book")
def book(order: dict[str, str]) -> None:
    raise AssertionError(order)


@trigger("queue://invoices", name="bill")
def bill(invoice: dict[str, str]) -> None:
    raise AssertionError(invoice)


@pytest.fixture
def file(tmp_path: Path) -> str:
    """A database with three orders that nobody has subscribed to, two invoices, and a queue of others."""
    url = f"sqlite:///{tmp_path}/messages.db"
    provider = open_provider(url)
    for destination, count in (("orders", 3), ("queue://invoices", 2), ("queue://others", 1)):
        drive(provider.send(destination, [Message(body={"id": number}) for number in range(count)]))
    drive(provider.close())
    return url


def serve(site: Site, *providers: str) -> None:
    triggers: Sequence[AnyTrigger] = (book, bill)
    site.serve(triggers, providers=providers)


def rows_of(html: str) -> list[list[str]]:
    """Return the words of each row of a page's tables."""
    return [text_of(row).split() for row in html.split("<tr data-row>")[1:]]


def test_dead_letters_are_parked_from_the_page_and_by_a_program(site: Site, file: str) -> None:
    serve(site, file)
    operator, told = site.signed_in(Role.OPERATOR), {"provider": origin(file), "trigger": "book"}
    assert "Park them" in operator.page("/providers")

    answer = operator.send("/letters", **told, **{"from": "queue://others"})
    again = site.browser().post("/api/letters", {**told, "from": "queue://others"}, headers=bearer())
    of_trigger = operator.send("/letters", **told, **{"from": "orders"})
    by_viewer = site.signed_in(Role.VIEWER).send("/letters", **told, **{"from": "queue://others"})

    assert (answer.status_code, of_trigger.status_code, by_viewer.status_code) == (200, 400, 403)
    assert "1 dead letters are parked" in text_of(answer.text)
    assert again.json() == {"parked": {}, "left": 0}
    (parked,) = drive(site.store.parking.list())
    assert (parked.trigger_name, parked.reason) == ("book", "DEAD LETTER from queue://others")
    assert parked.message is not None
    assert parked.message.body == {"id": 0}


def test_dead_letters_are_parked_from_the_chosen_one_of_two_files(
    site: Site, file: str, tmp_path: Path
) -> None:
    other = f"sqlite:///{tmp_path}/other.db"
    provider = open_provider(other)
    drive(provider.send("queue://others", [Message(body={"id": "of the other file"})]))
    drive(provider.close())
    serve(site, file, other)
    operator = site.signed_in(Role.OPERATOR)
    assert other in operator.page("/providers")

    operator.send("/letters", **{"provider": other, "trigger": "book", "from": "queue://others"})

    (parked,) = drive(site.store.parking.list())
    assert parked.message is not None
    assert parked.message.body == {"id": "of the other file"}


@pytest.mark.parametrize("lot", ["sqlite:///{folder}/lot.db", "memory://letters"], ids=["file", "memory"])
def test_dead_letters_are_parked_where_people_see_what_their_trigger_parks(
    site: Site, file: str, tmp_path: Path, lot: str
) -> None:
    url = lot.format(folder=tmp_path)

    @trigger("mails", name="mail", history=site.store, parking=url)
    def mail(letter: dict[str, str]) -> None:
        raise AssertionError(letter)

    site.serve([mail], providers=[file])
    operator = site.signed_in(Role.OPERATOR)

    operator.send("/letters", **{"provider": origin(file), "trigger": "mail", "from": "queue://others"})

    other = open_history(url)
    here, there = (drive(store.parking.count(trigger="mail")) for store in (site.store, other))
    assert (here, there) == ((1, 0) if url.startswith("memory") else (0, 1))
    assert len(keys_of(operator.page("/parked"))) == 1
    drive(other.close())


def test_each_provider_has_an_address_of_its_own_without_secrets() -> None:
    urls = ["redis://u:secret@a/0", "redis://b/0?password=secret", "redis://b/1", "nats://c", "nats://c"]

    assert addresses_of(urls) == [
        "redis://a",
        "redis://b/0?password=***",
        "redis://b/1",
        "nats://c (4)",
        "nats://c (5)",
    ]


def test_what_waits_for_each_trigger_is_shown_and_what_waits_for_others(site: Site, file: str) -> None:
    serve(site, file)

    rows = rows_of(site.signed_in(Role.VIEWER).page("/providers"))

    assert [row[:6] for row in rows] == [
        ["orders", "book", "book", "3", "0", "0"],
        ["queue://invoices", "-", "bill", "2", "0", "0"],
        ["queue://others", "-", "1", "0", "0", "0"],
    ]


@pytest.mark.parametrize("path", ["/", "/trigger?name=book"])
def test_other_pages_say_how_many_wait(site: Site, file: str, path: str) -> None:
    serve(site, file)

    page = site.signed_in(Role.VIEWER).page(path)

    assert '<a href="/providers">3</a>' in page


@pytest.mark.parametrize("path", ["/", "/trigger?name=book", "/providers"])
def test_a_count_that_ended_early_is_shown_as_such(site: Site, path: str) -> None:
    places = cast("Operations", site.app.state.operations).places
    many = Backlog(destination="orders", subscription="book", waiting=10_000, is_more=True)
    places.latest = lambda: [ProviderAnswer("redis://server", [many, many], at=1.0)]  # type: ignore[method-assign]

    page = text_of(site.signed_in(Role.VIEWER).page(path))

    assert ("10,000+" if path == "/providers" else "20,000+") in page


def test_a_provider_that_is_away_is_said_without_its_password_and_hides_no_other(
    site: Site, file: str
) -> None:
    serve(site, AWAY, file)

    page = site.signed_in(Role.VIEWER).page("/providers")

    assert "the Redis server is unavailable" in text_of(page)
    assert "secret" not in page
    assert ["orders", "book", "book", "3"] in [row[:4] for row in rows_of(page)]


def test_who_named_no_provider_reads_how(site: Site) -> None:
    browser = site.signed_in(Role.VIEWER)

    assert "--provider URL" in text_of(browser.page("/providers"))
    assert ">waiting<" not in browser.page("/")


def test_a_page_waits_for_no_provider_that_answered_before(file: str) -> None:
    now = [0.0]
    places = Places([file], [book, bill], clock=lambda: now[0])
    assert eventually(lambda: places.waiting() == {"book": Waiting(3), "bill": Waiting(2)})
    provider = open_provider(file)
    drive(provider.send("orders", [Message(body={})]))

    same = places.waiting()
    now[0] = 10.0

    assert same == {"book": Waiting(3), "bill": Waiting(2)}
    assert eventually(lambda: places.waiting() == {"book": Waiting(4), "bill": Waiting(2)})
    places.close()
    drive(provider.close())


def test_operations_close_what_they_opened(site: Site, file: str) -> None:
    serve(site, file)
    site.signed_in(Role.VIEWER).page("/providers")
    operations = cast("Operations", site.app.state.operations)

    operations.places.close()

    with pytest.raises(RuntimeError, match="shutdown"):
        operations.places.latest()
