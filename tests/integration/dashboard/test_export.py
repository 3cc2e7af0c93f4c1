"""The export of parked messages as JSON lines and CSV: for each role, recorded, and complete or refused."""

import csv
import io
import json
from typing import Any

import pytest

from history import ParkedKind, UnavailableError
from history.beside.security import SecurityEvent, SecurityOutcome, SecurityRecord
from history.bridge import drive
from tests.fixtures.beside import kept_in
from tests.integration.dashboard.browser import Browser, keys_of
from tests.integration.dashboard.conftest import Site
from tests.integration.dashboard.test_histories import two_at
from triggers.dashboard import Role, pulse
from triggers.dashboard.operations import Operations
from triggers.dashboard.pages import export
from triggers.testing.redis_server import RedisServer

CARD = "card 4711"


def lines(browser: Browser, **asked: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in exported(browser, format="jsonl", **asked).splitlines()]


def table(browser: Browser, **asked: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(exported(browser, format="csv", **asked), newline="")))


def exported(browser: Browser, **asked: str) -> str:
    return browser.page("/export?" + "&".join(f"{name}={value}" for name, value in asked.items()))


def records(site: Site) -> list[SecurityRecord]:
    """Return the records of exports in the security log, oldest first."""
    log = kept_in(site.store).security_log
    site.app.state.operations.recorder.wait(1.0)
    found = drive(log.read(limit=100)).records
    return [one for one in reversed(found) if one.event is SecurityEvent.EXPORT]


def test_json_lines_have_every_message_with_its_body_the_oldest_first(site: Site, operator: Browser) -> None:
    for number in range(3):
        site.park(f"order-{number}", {"id": f"N-{number}"}, minutes=-number)

    rows = lines(operator)

    assert [row["uuid"] for row in rows] == ["order-2", "order-1", "order-0"]
    assert [row["body"] for row in rows] == [{"id": "N-2"}, {"id": "N-1"}, {"id": "N-0"}]
    assert (rows[0]["trigger"], rows[0]["kind"]) == ("book", "in doubt")
    assert rows[0]["parked_at"] == "2026-01-02T11:58:00+00:00"
    assert rows[0]["headers"]["JMSDeliveryMode"] is not None


def test_csv_has_the_same_columns_for_each_message(site: Site, operator: Browser) -> None:
    site.park("order-1", {"id": 'N, "1"\nsecond line'})
    site.park("bad", kind=ParkedKind.UNREADABLE, message=None, raw={"body": "no json"})

    rows = {row["uuid"]: row for row in table(operator)}

    assert rows["order-1"]["parked_at"] == "2026-01-02T12:00:00+00:00"
    assert json.loads(rows["order-1"]["body"]) == {"id": 'N, "1"\nsecond line'}
    assert json.loads(rows["bad"]["raw"]) == {"body": "no json"}
    assert rows["bad"]["body"] == ""


@pytest.mark.parametrize("form", ["jsonl", "csv"])
def test_a_role_that_sees_no_bodies_gets_none_and_no_texts(site: Site, form: str) -> None:
    site.park(
        "order-1",
        {"id": CARD},
        reason=f"FAILED: no such {CARD} (row 7)",
        error_class="ValueError",
        error_message=CARD,
    )

    text = exported(site.signed_in(Role.VIEWER), format=form)

    assert CARD not in text
    assert "order-1" in text
    assert "ValueError" in text
    assert "row 7" in text
    assert "body" not in text


@pytest.mark.parametrize("beginning", ["=", "+", "-", "@", "\t", "\r", "\n", "\uff1d"])
def test_a_formula_in_a_cell_is_made_harmless(site: Site, operator: Browser, beginning: str) -> None:
    formula = f"{beginning}HYPERLINK(1)"
    site.park("order-1", formula, error_message=formula, error_class=formula)

    (row,) = table(operator)
    (same,) = lines(operator)

    assert (row["body"], row["error_message"], row["error_class"]) == (f"'{formula}",) * 3
    assert same["body"] == formula


@pytest.mark.parametrize(("form", "kind"), [("csv", "text/csv"), ("jsonl", "application/x-ndjson")])
def test_a_browser_saves_an_export_and_shows_nothing_of_it(
    site: Site, operator: Browser, form: str, kind: str
) -> None:
    site.park("<script>alert(1)</script>")

    headers = operator.get(f"/export?format={form}").headers

    assert headers["content-type"].startswith(kind)
    assert headers["content-disposition"] == f'attachment; filename="parked.{form}"'
    assert headers["x-content-type-options"] == "nosniff"


def test_a_text_that_no_encoding_has_is_exported(site: Site, operator: Browser) -> None:
    site.park("order-1", {"id": "\ud800 ü"})

    assert json.loads(table(operator)[0]["body"]) == {"id": "\ud800 ü"}
    assert lines(operator)[0]["body"] == {"id": "\ud800 ü"}


def test_the_filters_of_the_desk_are_those_of_the_export(site: Site, operator: Browser) -> None:
    site.park("order-1")
    site.park("failed", kind=ParkedKind.REJECTED, reason="it failed", evidence={"owner": "host-9:1:a"})
    site.park("parcel-1", trigger_name="ship", minutes=1)
    (key,) = keys_of(operator.page("/parked?trigger=ship"))

    assert {row["uuid"] for row in lines(operator)} == {"order-1", "failed", "parcel-1"}
    assert [row["uuid"] for row in lines(operator, trigger="ship")] == ["parcel-1"]
    assert [row["uuid"] for row in lines(operator, host="host-9")] == ["failed"]
    assert [row["uuid"] for row in lines(operator, key=key)] == ["parcel-1"]
    assert lines(operator, trigger="book", host="nowhere") == []


@pytest.mark.parametrize("asked", ["format=xls", "key=none", "trigger=unknown"])
def test_what_cannot_be_exported_is_refused_and_not_recorded(
    site: Site, operator: Browser, asked: str
) -> None:
    site.park("order-1")

    assert operator.get(f"/export?{asked}").status_code in {400, 404}
    assert records(site) == []


def test_an_export_is_in_the_security_log_before_anything_is_sent(site: Site, operator: Browser) -> None:
    site.park("order-1")
    site.park("order-2", minutes=1)
    site.park("parcel-1", trigger_name="ship")

    lines(operator)

    kept = {one.trigger: (one.user, one.role, one.outcome.value, one.messages) for one in records(site)}
    assert kept == {
        "book": ("a operator", "operator", "allowed", 2),
        "ship": ("a operator", "operator", "allowed", 1),
    }


def test_an_export_comes_in_pieces(site: Site, operator: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export, "PIECE", 2)
    for number in range(5):
        site.park(f"order-{number}", minutes=number)

    assert [row["uuid"] for row in lines(operator)] == [f"order-{number}" for number in range(5)]
    assert len(table(operator)) == 5


def test_the_desk_and_a_group_have_links_to_their_exports(site: Site, operator: Browser) -> None:
    site.park("order-1")
    key = site.group(operator)

    desk, group = operator.page("/parked?trigger=book"), operator.page(f"/group?key={key}")

    assert "/export?format=csv&amp;trigger=book" in desk
    assert "/export?format=jsonl&amp;trigger=book" in desk
    assert f"/export?format=csv&amp;key={key}" in group


def test_an_export_that_breaks_off_does_not_end_like_a_whole_one_and_is_recorded_as_failed(
    site: Site, private_redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export, "PIECE", 1)
    two = two_at(site, f"{private_redis.url}?circuit=off")
    for number in range(2):
        two.park(f"parcel-{number}", minutes=number)
    operations: Operations = site.app.state.operations
    record = SecurityRecord(event=SecurityEvent.EXPORT, outcome=SecurityOutcome.ALLOWED, trigger="ship")
    pieces = export.pieces(operations, operations.surveyor.latest().groups, "jsonl", None)
    sent = export.noting(pieces, operations.recorder, [record])

    first = next(sent)
    private_redis.kill()
    with pytest.raises(UnavailableError):
        list(sent)
    private_redis.start()
    drive(two.second.close())

    assert json.loads(first)["uuid"] == "parcel-0"
    assert [one.outcome for one in records(site)] == [SecurityOutcome.FAILED]


def test_while_another_history_is_away_the_rest_can_be_exported_by_trigger(
    site: Site, private_redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pulse, "FRESH", 0.0)
    two = two_at(site, f"{private_redis.url}?circuit=off")
    site.park("order-1")
    two.park("parcel-1")
    operator = site.signed_in(Role.OPERATOR)
    both = {row["uuid"] for row in lines(operator)}

    private_redis.kill()
    everything, of_ship = operator.get("/export"), operator.get("/export?trigger=ship")
    rest = lines(operator, trigger="book")
    private_redis.start()
    drive(two.second.close())

    assert both == {"order-1", "parcel-1"}
    assert (everything.status_code, of_ship.status_code) == (503, 503)
    assert [row["uuid"] for row in rest] == ["order-1"]
