"""Settings files and schedules: their meaning, and the values that are refused."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from history.errors import ConfigurationError
from triggers.providers.sqlremote.agent.hooks import Hooks, load_hooks
from triggers.providers.sqlremote.protocol.schedule import Schedule
from triggers.providers.sqlremote.settings import RemoteSettings

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)

GOOD = """
database = "sqlite:///orders.db"
[links.orders]
carrier = "file:///mnt/exchange"
inbox = "berlin"
outbox = "munich"
send = "every 00:05:00"
poll = 2.5
keys = ["orders.key"]
"""


def load(folder: Path, text: str) -> RemoteSettings:
    file = folder / "links.toml"
    file.write_text(text)
    return RemoteSettings.load(file)


def test_a_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "orders.key").write_text("a key of the link's own\n")

    link = load(tmp_path, GOOD).links["orders"]

    assert (link.publication, link.poll) == ("orders", timedelta(seconds=2.5))
    assert (link.schedule.frequency, link.schedule.send_time) == ("P", "00:05:00")
    assert link.seal().keys == [b"a key of the link's own"]


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ("database = ", "cannot be read"),
        ('database = "sqlite:///x.db"', "links"),
        ('database = "sqlite:///x.db"\nlinks = {}', "there is none"),
        (GOOD.replace("poll", "pol"), "pol"),
        (GOOD.replace("munich", "berlin"), "inbox and outbox"),
        (GOOD.replace("munich", "../munich"), "is not a plain name"),
        (GOOD.replace("every 00:05:00", "sometimes"), "is not a schedule"),
        (GOOD.replace("every 00:05:00", "at 25:00"), "is not a schedule"),
        (GOOD.replace("every 00:05:00", "every 00:00:00"), "is not a schedule"),
        (GOOD + "message_size = 100", "message_size"),
        (GOOD + "patience = 0", "patience"),
        (GOOD.replace("[links.orders]", '[links."a:b"]'), "colon"),
    ],
    ids=lambda value: value if len(value) < 20 else "file",
)
def test_what_cannot_work_is_named(tmp_path: Path, wrong: str, told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        load(tmp_path, wrong)


@pytest.mark.parametrize(
    ("line", "setting"),
    [
        ("poll = inf", "settings"),
        ("max_gap_age = 1e300", "settings"),
        ("repeat_after = 1e13", "settings"),
        ("keep_log = -1", "settings"),
        ("poll = 0", "links.orders.poll"),
        ("group = 0", "links.orders.group"),
        ("message_size = 3000000000", "links.orders.message_size"),
        ("tables = ['orders', 'lines', 'orders']", "links.orders.tables"),
        ("tables = ['orders(']", "links.orders.tables"),
        ("inbox = 'a/b'", "links.orders.inbox"),
        ("outbox = '..'", "links.orders.outbox"),
        ("send = 'at noon'", "links.orders.send"),
    ],
    ids=lambda value: value.replace(" ", ""),
)
def test_an_impossible_value_is_refused_with_its_link(tmp_path: Path, line: str, setting: str) -> None:
    name = line.partition(" ")[0]
    lines = [one for one in GOOD.splitlines() if not one.startswith(f"{name} =")]

    with pytest.raises(ConfigurationError, match=name) as raised:
        load(tmp_path, "\n".join([*lines, line]))

    assert raised.value.setting == setting


def test_a_key_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"orders\.key cannot be read"):
        load(tmp_path, GOOD).links["orders"].seal()


def test_without_a_schedule_every_run_sends() -> None:
    assert Schedule.parse(None).due(None, now=NOON)
    assert Schedule.parse(None).due(NOON, now=NOON)


def test_a_period_is_due_when_one_of_those_that_have_it_is() -> None:
    hourly = Schedule.parse("every 01:00")

    assert hourly.due(None, now=NOON)
    assert not hourly.due(NOON - HOUR / 2, now=NOON)
    assert hourly.due(NOON - HOUR, now=NOON)
    assert hourly.due(NOON - HOUR / 2, now=NOON, others=[None, NOON - HOUR])
    assert not hourly.due(NOON - HOUR / 2, now=NOON, others=[None, NOON - 2 * HOUR]), "it had nothing to get"


def test_a_time_of_the_day_is_due_once_a_day() -> None:
    nightly = Schedule.parse("AT 22:00")
    ten = NOON.replace(hour=22)

    assert not nightly.due(NOON, now=ten - HOUR)
    assert nightly.due(NOON, now=ten)
    assert not nightly.due(ten, now=ten + HOUR)
    assert nightly.due(ten, now=ten + 24 * HOUR)
    assert nightly.due(ten - 48 * HOUR, now=NOON), "yesterday's time was missed"


@pytest.mark.parametrize("schedule", ["every 01:00", "at 22:00"])
def test_a_peer_that_was_served_in_the_future_is_due_because_the_clock_was_set_back(schedule: str) -> None:
    assert Schedule.parse(schedule).due(NOON + 48 * HOUR, now=NOON)


def test_hooks_are_named_by_a_text() -> None:
    assert type(load_hooks(None)) is Hooks
    assert isinstance(load_hooks("triggers.providers.sqlremote.agent.hooks:Hooks"), Hooks)
    with pytest.raises(ConfigurationError, match="hooks"):
        load_hooks("nowhere:Hooks")
    with pytest.raises(ConfigurationError, match="begin"):
        load_hooks(f"{__name__}:GOOD")


def test_there_is_one_consolidated_database_above_an_end(tmp_path: Path) -> None:
    one = GOOD + "consolidated = true\n"
    other = one.partition("[links.orders]")[2].replace("berlin", "paris").replace("munich", "rome")
    assert load(tmp_path, one).links["orders"].consolidated

    with pytest.raises(ConfigurationError) as raised:
        load(tmp_path, f"{one}[links.stock]{other}")

    assert raised.value.setting == "links.stock.consolidated"


@pytest.mark.parametrize(("shared", "own"), [("inbox", "munich"), ("outbox", "berlin")])
def test_two_links_cannot_share_an_address(tmp_path: Path, shared: str, own: str) -> None:
    second = GOOD.partition("[links.orders]")[2].replace(own, "paris")

    with pytest.raises(ConfigurationError) as raised:
        load(tmp_path, f"{GOOD}[links.stock]{second}")

    assert raised.value.setting == f"links.stock.{shared}"
    another = second.replace("/mnt/exchange", "/mnt/other")
    assert len(load(tmp_path, f"{GOOD}[links.stock]{another}").links) == 2
