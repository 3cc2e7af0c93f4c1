"""What each trigger promises is told from its settings and its service, and never more than that."""

from typing import Any

import pytest
from sqlalchemy import Connection

from history.memory import MemoryHistory
from tests.acceptance.pages import ROOT
from triggers import Delivery, Message, trigger
from triggers.guarantees import GUARANTEES, guarantee_of


def plain(message: Message) -> None:
    raise AssertionError("must not run")


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


@pytest.mark.parametrize("page", ["README.md", "docs/guarantees.md"])
def test_the_levels_stand_word_for_word_in(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")

    for one in GUARANTEES:
        assert f"| **{one.level}** | {one.when} | {one.promise} |" in text
