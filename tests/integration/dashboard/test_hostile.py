"""Bodies, names and reasons of strangers are shown as text. No browser runs them."""

from typing import Any

import pytest

from history import Evidence, Message, ParkedKind
from history.bridge import drive
from history.store import Counts, Report
from tests.integration.dashboard.browser import Browser, text_of
from tests.integration.dashboard.conftest import Site
from triggers.dashboard import Role
from triggers.dashboard.app import SHOWN
from triggers.dashboard.rendering import SHOWN as SHOWN_OF_A_BODY
from triggers.dashboard.rendering import url

SCRIPT = "<script>alert(1)</script>"
QUOTED = "\"'><img src=x onerror=alert(1)>{{ 7 * 7 }}"
CONTROL = "\x00\x1b[31m\u202egnp.exe\x85\u2028\x7f"

#: Pages without parameters. An export is not a page: no browser shows it.
PAGES = [
    path for path in SHOWN if path not in {"/group", "/message", "/decide", "/job", "/trigger", "/export"}
]


def assert_harmless(html: str) -> None:
    """Check that no text of a stranger becomes a tag, an attribute or a control character."""
    assert "<script>alert" not in html
    assert "<img" not in html
    assert "{{ 7 * 7 }}" in html or "7 * 7" not in html
    assert not [one for one in html if not one.isprintable() and one != "\n"]


@pytest.mark.parametrize("name", [SCRIPT, QUOTED, CONTROL, "\u200f\u2066" * 20, "a" * 16_384])
def test_names_and_errors_of_strangers_are_shown_escaped_on_every_page(
    site: Site, operator: Browser, name: str
) -> None:
    parked = site.park(
        name,
        reason=name,
        destination=name,
        error_class=name,
        error_message=name,
        error_trace=f"{name}\n{name}",
        evidence=Evidence(owner=f"{name}:1:{name}"),
    )
    operator.decide(decision="discard", trigger="book", id=site.park("other").id, reason=name)

    admin = site.signed_in(Role.ADMIN)
    htmls = [admin.page(path) for path in PAGES]
    htmls += [
        operator.page(f"/message?trigger=book&id={parked.id}"),
        operator.page(f"/group?key={site.group(operator)}"),
        operator.page("/parked?by=host"),
        operator.page(url("/story", uuid=name)) if len(name) < 1_000 else "",
        operator.page(f"/decide?decision=done&trigger=book&id={parked.id}"),
        admin.page("/security?what=view_body"),
    ]

    for html in htmls:
        assert_harmless(html)
    assert max(map(len, htmls)) < 2_000_000


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        (SCRIPT, SCRIPT),
        ({"a": QUOTED}, "onerror"),
        (b"\xff\x00\x01", "/wAB"),
        (b"\x00\x1b[31mred", "\\x00\\x1b[31mred"),
        ("first\nsecond\tline", "first\nsecond\tline"),
        ("x" * 1024 * 1024, "characters more"),
        (b"y" * 1024 * 1024, "characters more"),
        ("\ud800", "\\ud800"),
        ({"deep": [[[[[[[["here"]]]]]]]]}, "here"),
    ],
)
def test_a_body_is_shown_as_what_it_is_and_never_more_than_a_page_holds(
    site: Site, operator: Browser, body: Any, shown: str
) -> None:
    parked = site.park("order-1", body)

    html = operator.page(f"/message?trigger=book&id={parked.id}")

    assert shown in text_of(html)
    assert len(html) < SHOWN_OF_A_BODY + 20_000
    assert "<script>alert" not in html
    assert "<img" not in html


def test_properties_of_strangers_are_shown_escaped(site: Site, operator: Browser) -> None:
    message = Message(body="", uuid="order-1", properties={SCRIPT: QUOTED, "control": CONTROL})
    parked = site.park("order-1", message=message)

    assert_harmless(operator.page(f"/message?trigger=book&id={parked.id}"))


def test_what_was_no_message_is_shown_as_it_came(site: Site, operator: Browser) -> None:
    raw = {SCRIPT: QUOTED, "body": CONTROL}
    parked = site.park("order-1", message=None, raw=raw, kind=ParkedKind.UNREADABLE)

    html = operator.page(f"/message?trigger=book&id={parked.id}")

    assert_harmless(html)
    assert "it was not a message" in text_of(html)


@pytest.mark.parametrize("name", [SCRIPT, QUOTED, "../../etc", "a b&c=d#e%00?"])
def test_names_of_triggers_and_consumers_are_shown_escaped_and_can_be_followed(
    site: Site, operator: Browser, name: str
) -> None:
    report = Report(consumer=name, trigger=name, reason=name, counts=Counts(new=1))
    drive(site.store.control.beat("token", [report]))

    html = operator.page("/triggers")
    link = html.split('<th scope="row"><a href="')[1].split('"')[0]
    of_one = operator.page(text_of(link))

    assert_harmless(html)
    assert_harmless(of_one)
    assert_harmless(operator.page("/"))
    assert name in text_of(of_one)


@pytest.mark.parametrize("uuid", [SCRIPT, QUOTED, CONTROL, "a" * 10_000, "%ff%fe", "\ud800"])
def test_any_uuid_may_be_asked_for(site: Site, operator: Browser, uuid: str) -> None:
    site.park("order-1")

    answer = operator.get("/story?uuid=" + "".join(f"%{one:02x}" for one in uuid.encode("utf-8", "replace")))

    assert answer.status_code == 200
    assert_harmless(answer.text)


def test_a_reason_of_strangers_is_kept_whole_and_shown_escaped(site: Site, operator: Browser) -> None:
    parked = site.park("order-1")

    operator.decide(decision="done", trigger="book", id=parked.id, reason=SCRIPT + CONTROL)

    html = operator.page("/decisions")
    assert_harmless(html)
    assert SCRIPT in text_of(html)
