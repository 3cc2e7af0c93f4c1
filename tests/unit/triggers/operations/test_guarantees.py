"""The promise of each trigger follows from its settings and its service, and never says too much."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection

from history.memory import MemoryHistory
from resolvers import Resolution
from tests import ROOT
from tests.acceptance.in_process import InProcess
from tests.fixtures.ports import closed_port
from triggers import Delivery, Message, trigger
from triggers.operations.guarantees import GUARANTEES, Reached, guarantee_of


def plain(message: Message) -> None:
    raise AssertionError("must not run")


def says_new(uuid: str, trigger_name: str, message: Message) -> Resolution:
    return Resolution.NEW


def says_new_or_not(uuid: str, trigger_name: str, message: Message) -> Resolution:
    return Resolution.NEW if uuid else Resolution.DUPLICATE


def says_new_in_a_word(**asked: object) -> str:
    return "NEW"


def says_duplicate(uuid: str, trigger_name: str, message: Message) -> Resolution:
    return Resolution.DUPLICATE


def fenced(message: Message, delivery: Delivery) -> None:
    raise AssertionError("must not run")


def atomic(message: Message, connection: Connection) -> None:
    raise AssertionError("must not run")


@pytest.mark.parametrize(
    ("service", "settings", "promise"),
    [
        (plain, {}, "in doubt"),
        (fenced, {}, "fenced"),
        (atomic, {"history": "sqlite:///shop.sqlite3", "transacted": True}, "atomic"),
        (plain, {"history": None}, "none"),
        (fenced, {"in_doubt": "execute"}, "at least once"),
        (fenced, {"in_doubt": "acknowledge"}, "at most once"),
        (fenced, {"detect_duplicates": False}, "at least once"),
        (plain, {"acknowledge_mode": "dups_ok"}, "at least once"),
        (plain, {"acknowledge_mode": "auto"}, "at most once"),
        (fenced, {"resolver": says_new}, "at least once"),
        (fenced, {"resolver": says_new_in_a_word}, "at least once"),
        (fenced, {"resolver": says_duplicate}, "at most once"),
        (fenced, {"resolver": says_new_or_not}, "fenced"),
        (fenced, {"history": MemoryHistory()}, "in doubt until the process ends"),
        (plain, {"history": "memory://orders"}, "in doubt until the process ends"),
        (atomic, {"history": "sqlite://", "transacted": True}, "in doubt until the process ends"),
    ],
    ids=[
        *("plain", "fenced", "atomic", "no history", "execute", "acknowledge", "no detection"),
        *("dups ok", "auto", "resolver says NEW", "resolver says NEW as text"),
        *("resolver says DUPLICATE", "resolver looks", "memory"),
        *("memory by its URL", "SQLite in memory"),
    ],
)
def test_the_promise_of_a_trigger(service: Any, settings: dict[str, Any], promise: str) -> None:
    options: dict[str, Any] = {"history": "sqlite:///shop.sqlite3"} | settings

    assert guarantee_of(trigger("orders", name="t", **options)(service)).promise == promise


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({}, "a copy waits while its original runs, and 30 s after it has died"),
        ({"lease": timedelta(seconds=2)}, "and 2 s after it has died"),
        ({"lease": None}, "a copy that arrives while its original runs is In Doubt at once"),
        ({"lease": None, "resolver": says_new_or_not}, "where it says NEW, both run"),
    ],
    ids=["usual", "short", "none", "none beside a resolver"],
)
def test_what_a_copy_meets_is_told(settings: dict[str, Any], why: str) -> None:
    made = trigger("orders", name="t", history="sqlite:///shop.sqlite3", **settings)(plain)

    assert guarantee_of(made).why.endswith(why)


@pytest.mark.parametrize("page", ["README.md", "docs/guarantees.md"])
def test_the_levels_stand_word_for_word_in(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")

    for one in GUARANTEES:
        assert f"| **{one.level}** | {one.when} | {one.promise} |" in text


@pytest.mark.parametrize(
    ("promise", "required", "enough"),
    [
        ("atomic", "atomic", True),
        ("atomic", "in doubt", True),
        ("fenced", "atomic", False),
        ("fenced", "fenced", True),
        ("in doubt", "fenced", False),
        ("at least once", "in doubt", False),
        ("in doubt until the process ends", "in doubt", False),
        ("atomic unless its history forgets", "in doubt", False),
    ],
)
def test_what_is_required_is_compared_with_what_is_reached(promise: str, required: str, enough: bool) -> None:  # noqa: FBT001
    assert Reached(promise, "").satisfies(required) is enough


_MODULE = """
from triggers import Delivery, Message, trigger

@trigger("orders", name="guards-the-bank", history="sqlite:///shop.sqlite3")
def book(message: Message, delivery: Delivery) -> None: ...
"""


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["--require", "fenced"], 0),
        (["--require", "in-doubt"], 0),
        (["--require", "atomic"], 1),
        (["--require", "fenced", "--check"], 0),
        (["--require", "perfect"], 2),
    ],
)
def test_a_level_can_be_required(words: list[str], code: int, tmp_path: Path) -> None:
    (tmp_path / "required_shop.py").write_text(_MODULE)

    assert InProcess(tmp_path)("guarantees", "required_shop", *words).code == code


def test_a_requirement_needs_a_module(tmp_path: Path) -> None:
    assert InProcess(tmp_path)("guarantees", "--require", "atomic").code == 2


def test_a_history_that_is_away_hides_no_other_trigger(tmp_path: Path) -> None:
    away = f"redis://127.0.0.1:{closed_port()}/0"
    (tmp_path / "away_shop.py").write_text(
        _MODULE
        + f"""
@trigger("orders", name="without-a-server", history="{away}")
def note(message: Message, delivery: Delivery) -> None: ...
"""
    )

    answer = InProcess(tmp_path)("guarantees", "away_shop", "--check", "--require", "fenced", "--json")

    assert answer.code == 1
    assert {row["trigger"]: row["guarantee"] for row in answer.json} == {
        "guards-the-bank": "fenced",
        "without-a-server": "fenced unless its history forgets",
    }
    assert any("unavailable while checking" in row["why"] for row in answer.json), answer.json
