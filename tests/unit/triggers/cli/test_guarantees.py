"""What each trigger promises is told from its settings and its service, and never more than that."""

from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import Connection

from history.memory import MemoryHistory
from resolvers import Resolution
from tests import ROOT
from triggers import Delivery, Message, trigger
from triggers.cli.shared.guarantee_levels import GUARANTEES, guarantee_of


def plain(message: Message) -> None:
    raise AssertionError("must not run")


def says_new(uuid: str, trigger_name: str, message: Message) -> Resolution:
    return Resolution.NEW


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
    ],
    ids=[
        "plain",
        "fenced",
        "atomic",
        "no history",
        "execute",
        "acknowledge",
        "no detection",
        "dups ok",
        "auto",
    ],
)
def test_the_promise_of_a_trigger(service: Any, settings: dict[str, Any], promise: str) -> None:
    options: dict[str, Any] = {"history": MemoryHistory()} | settings

    assert guarantee_of(trigger("orders", name="t", **options)(service)).promise == promise


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ({}, "a copy waits while its original runs, and 30 s after it has died"),
        ({"lease": timedelta(seconds=2)}, "and 2 s after it has died"),
        ({"lease": None}, "a copy that arrives while its original runs is In Doubt at once"),
        ({"lease": None, "resolver": says_new}, "where it says NEW, both run"),
    ],
    ids=["usual", "short", "none", "none beside a resolver"],
)
def test_what_a_copy_meets_is_told(settings: dict[str, Any], why: str) -> None:
    made = trigger("orders", name="t", history=MemoryHistory(), **settings)(plain)

    assert guarantee_of(made).why.endswith(why)


@pytest.mark.parametrize("page", ["README.md", "docs/guarantees.md"])
def test_the_levels_stand_word_for_word_in(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")

    for one in GUARANTEES:
        assert f"| **{one.level}** | {one.when} | {one.promise} |" in text
