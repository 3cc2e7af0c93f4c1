"""``doubtless suspend``, ``resume``, ``disable``, ``enable``, ``status``, ``statistics``; real consumers."""

import os
import signal
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from history.beside.kept import KeepsBeside
from history.bridge import drive
from history.store import Counts, Report, TriggerState, Verb
from history.store.control import Trouble, TroubleKind
from tests.acceptance.in_process import InProcess
from tests.fixtures.histories import with_store
from tests.fixtures.waiting import eventually
from tests.integration.helpers.consumers import is_drained, parked_in, send
from tests.integration.helpers.service_process import Steering, is_running

#: The stream and trigger of a plain service, which notes the messages that it begins.
NAME = "blocking"

#: The history soon forgets a consumer that left.
FAST = "?claim_idle=2&reclaim_interval=0.1"


@pytest.fixture
def steering(tmp_path: Path) -> Iterator[Steering]:
    """Watch and steer the services. At the end of the test all running services may end."""
    steering = Steering(tmp_path)
    yield steering
    steering.let_end(*(uuid for uuid, _ in steering.noted("begun")))


@pytest.fixture(params=[pytest.param("redis", marks=pytest.mark.prove), "sqlite"])
def history_url(request: pytest.FixtureRequest, tmp_path: Path, redis_url: str) -> str:
    """A history on a server, and one in a file."""
    return redis_url if request.param == "redis" else f"sqlite:///{tmp_path}/history.sqlite3"


class Operator:
    """A person at the command line, and the history that the person reads."""

    def __init__(self, doubtless: InProcess, history_url: str) -> None:
        self.doubtless = doubtless
        self._history = history_url

    def __call__(self, *words: str, code: int = 0) -> Any:
        answer = self.doubtless(*words, "--json", "--history", self._history)
        assert answer.code == code, answer.err
        return answer.json

    def tell(self, *words: str) -> Any:
        """Give a command, with enough patience for a busy machine."""
        return self(*words, "--wait", "50")

    def sees(self, **states: str) -> bool:
        """Whether exactly these consumers report these states."""
        overview = with_store(self._history, lambda store: store.control.overview())
        return {beat.report.consumer: beat.report.state for beat in overview.beats} == states


@pytest.fixture
def operator(doubtless: InProcess, history_url: str) -> Operator:
    return Operator(doubtless, history_url)


@pytest.fixture
def words(redis_url: str, history_url: str) -> list[str]:
    return ["--trigger", NAME, "--provider", redis_url + FAST, "--history", history_url]


class TestRunningConsumers:
    def test_suspend_reaches_them_and_resume_drains_what_stayed_with_the_provider(
        self, steering: Steering, operator: Operator, words: list[str], redis_url: str
    ) -> None:
        with steering.serve(*words, "--name", "one"), steering.serve(*words, "--name", "two"):
            eventually(lambda: operator.sees(one="RUNNING", two="RUNNING"))
            answers = operator.tell("suspend", "block*", "--reason", "maintenance")
            send(redis_url, NAME, "a", "b")
            status = operator("status", "-t", NAME)
            begun = steering.noted("begun")
            resumed = operator.tell("resume", NAME)
            eventually(lambda: is_drained(redis_url, NAME))

        assert [(one["consumer"], one["obeyed"]) for one in answers] == [("one", True), ("two", True)]
        assert begun == []
        for row in status:
            assert (row["trigger"], row["state"], row["reason"]) == (NAME, "SUSPENDED", "maintenance")
            assert row["by_command"]
            assert row["since"] <= row["last_beat"]
        assert [one["state"] for one in resumed] == ["RUNNING", "RUNNING"]
        assert sorted(uuid for uuid, _ in steering.noted("done")) == ["a", "b"]
        assert parked_in(redis_url, NAME) == []

    @pytest.mark.prove
    def test_suspended_does_not_outlive_the_process_and_disabled_does(
        self, steering: Steering, operator: Operator, words: list[str], redis_url: str
    ) -> None:
        with steering.serve(*words, "--name", "one") as first:
            eventually(lambda: operator.sees(one="RUNNING"))
            operator.tell("suspend", NAME)
            send(redis_url, NAME, "a")
            first.send(signal.SIGTERM)
            eventually(lambda: not is_running(first.pid))
        with steering.serve(*words, "--name", "two") as second:
            eventually(lambda: steering.noted("done", "a"))
            operator.tell("disable", NAME)
            send(redis_url, NAME, "b")
            second.send(signal.SIGTERM)
            eventually(lambda: not is_running(second.pid))
        with steering.serve(*words, "--name", "three"):
            eventually(lambda: operator.sees(three="DISABLED"))
            begun = steering.noted("begun", "b")
            operator.tell("enable", NAME)
            eventually(lambda: steering.noted("done", "b"))

        assert begun == []

    # The test waits for 15 seconds of silence. The contract of each store also covers this.
    @pytest.mark.parametrize(
        "history_url", ["sqlite", pytest.param("redis", marks=pytest.mark.prove)], indirect=True
    )
    def test_one_that_was_killed_is_shown_as_lost_with_what_it_held(
        self, steering: Steering, operator: Operator, words: list[str], redis_url: str
    ) -> None:
        send(redis_url, NAME, "a", body="wait")
        with steering.serve(*words, "--name", "one") as served:
            eventually(lambda: steering.noted("begun", "a"))
            eventually(lambda: operator("status")[0]["busy"] == 1)
            os.kill(served.pid, signal.SIGKILL)
            served.wait()

        assert [row["consumer"] for row in operator("status")] == ["one"]
        eventually(operator.sees)
        idle, lost = operator("status")
        assert (idle["state"], idle["consumer"]) == ("NOT RUNNING", None)
        assert (lost["state"], lost["consumer"], lost["busy"]) == ("LOST", "one", 1)


@pytest.fixture
def one_that_hangs(store: KeepsBeside) -> KeepsBeside:
    """A history with an old report of a consumer of "book" and "ship", and nothing after it."""
    reports = [
        Report(consumer="host-1", trigger=name, counts=Counts(new=2, in_doubt=1, runs=3, microseconds=4500))
        for name in ("book", "ship")
    ]
    drive(store.control.beat("token", reports))
    return store


class TestAnswers:
    @pytest.mark.usefixtures("one_that_hangs")
    def test_who_does_not_obey_in_time_is_exit_code_1(self, doubtless: InProcess, redis_url: str) -> None:
        answer = doubtless("suspend", "book", "--wait", "0.2", "--history", redis_url)

        assert answer.code == 1
        assert answer.out == (
            "trigger  consumer  obeyed  state    busy  reason\nbook     host-1    False   RUNNING  0     -\n"
        )

    def test_a_pattern_names_what_is_known(
        self, doubtless: InProcess, redis_url: str, one_that_hangs: KeepsBeside
    ) -> None:
        words = ["--wait", "0", "--history", redis_url]

        assert doubtless("disable", "s*", *words).code == 1
        assert doubtless("disable", "x*", *words).err == "no trigger is called so\n"

        overview = drive(one_that_hangs.control.overview())
        assert [order.trigger for order in overview.orders] == ["ship"]

    @pytest.mark.parametrize(("verb", "code"), [("suspend", 1), ("resume", 1), ("disable", 0), ("enable", 0)])
    def test_a_trigger_that_nobody_runs(
        self, doubtless: InProcess, redis_url: str, store: KeepsBeside, verb: str, code: int
    ) -> None:
        drive(store.claim("book", ["u1"], "worker"))

        answer = doubtless(verb, "book", "--history", redis_url)

        assert (answer.code, answer.out, answer.err) == (code, "", "no consumer runs it\n")
        assert drive(store.control.overview()).orders[0].verb is Verb(verb)

    def test_a_trigger_can_be_disabled_before_it_is_known(
        self, doubtless: InProcess, redis_url: str, store: KeepsBeside
    ) -> None:
        drive(store.claim("book", ["u1"], "worker"))

        answer = doubtless("disable", "boook", "--reason", "not yet", "--history", redis_url)
        status = doubtless("status", "--json", "--history", redis_url)

        assert answer.code == 0
        assert answer.err.startswith("the history knows no trigger boook, only: book\n")
        found = {row["trigger"]: (row["state"], row["reason"]) for row in status.json}
        assert found == {"book": ("NO CONSUMER REPORTS", None), "boook": ("DISABLED", "not yet")}

    def test_a_provider_that_is_away_is_said_with_its_cause_and_since_when(
        self, doubtless: InProcess, redis_url: str, store: KeepsBeside
    ) -> None:
        cause = "the Redis server is unavailable"
        away = Report(consumer="host-1", trigger="book", elapsed=900.0, away=cause, away_for=60.0)
        heard = drive(store.control.beat("token", [away]))

        table = doubtless("status", "--history", redis_url)
        (row,) = doubtless("status", "--json", "--history", redis_url).json

        assert "PROVIDER AWAY" in table.out
        assert (row["state"], row["reason"], row["away"]) == ("PROVIDER AWAY", cause, cause)
        since = [datetime.fromisoformat(row[name]) for name in ("since", "away_since")]
        assert since == [heard.now - timedelta(seconds=60)] * 2

    def test_a_trigger_is_suspended_whether_its_provider_answers_or_not(
        self, doubtless: InProcess, redis_url: str, store: KeepsBeside
    ) -> None:
        said = Report(
            consumer="host-1",
            trigger="book",
            state=TriggerState.SUSPENDED,
            reason="maintenance",
            away="no route",
        )
        drive(store.control.beat("token", [said]))

        (row,) = doubtless("status", "--json", "--history", redis_url).json

        assert (row["state"], row["reason"], row["away"]) == ("SUSPENDED", "maintenance", "no route")

    @pytest.mark.usefixtures("one_that_hangs")
    def test_status_is_one_line_a_consumer_and_trigger(self, doubtless: InProcess, redis_url: str) -> None:
        answer = doubtless("status", "-t", "book", "--history", redis_url)

        columns, row = answer.out.splitlines()
        assert columns.split() == [
            *("trigger", "consumer", "state", "busy", "reason", "since", "last_beat", "counts"),
        ]
        assert row.split()[:5] == ["book", "host-1", "RUNNING", "0", "-"]
        assert row.endswith("2 new, 1 in doubt")

    def test_status_tells_what_goes_wrong_in_a_consumer_that_runs(
        self, doubtless: InProcess, redis_url: str, store: KeepsBeside
    ) -> None:
        trouble = Trouble(kind=TroubleKind.HANGING, cause="book (shop.py:17)", elapsed=70.0, count=2)
        drive(store.control.beat("token", [Report(consumer="host-1", trigger="book", troubles=(trouble,))]))
        words = ("status", "--history", redis_url)

        table, [row] = doubtless(*words), doubtless(*words, "--json").json

        [told] = row["troubles"]
        since = datetime.fromisoformat(row["last_beat"]) - datetime.fromisoformat(told.pop("since"))
        assert (row["state"], row["reason"], since) == ("RUNNING", None, timedelta(seconds=70))
        assert told == {"kind": "a call does not end", "cause": "book (shop.py:17)", "count": 2}
        assert "a call does not end: book (shop.py:17)" in table.out

    @pytest.mark.usefixtures("one_that_hangs")
    def test_statistics_are_one_line_a_trigger(self, doubtless: InProcess, redis_url: str) -> None:
        shown = doubtless("statistics", "-t", "ship", "--history", redis_url)
        cleared = doubtless("statistics", "-t", "ship", "--clear", "--json", "--history", redis_url)
        left = doubtless("statistics", "--json", "--history", redis_url)

        columns, row = (line.split() for line in shown.out.splitlines())
        assert dict(zip(columns, row, strict=True)) == {
            "trigger": "ship",
            "new": "2",
            "duplicate": "0",
            "in_doubt": "1",
            "rejected": "0",
            "unreadable": "0",
            "failed": "0",
            "retried": "0",
            "recovered": "0",
            "seconds": "0.004",
            "mean_ms": "1.5",
        }
        assert cleared.json[0]["new"] == 2
        assert [one["trigger"] for one in left.json] == ["book"]

    def test_nothing_known_is_exit_code_1(self, doubtless: InProcess, redis_url: str) -> None:
        status = doubtless("status", "-t", "book", "--history", redis_url)
        statistics = doubtless("statistics", "--history", redis_url)

        assert (status.code, statistics.code) == (1, 1)
        assert status.err == "nothing is known\n"
        assert statistics.err == "nothing was counted\n"

    def test_what_moves_the_cursor_is_escaped(
        self, doubtless: InProcess, redis_url: str, store: KeepsBeside
    ) -> None:
        odd = Report(consumer="\x1b[31mw", trigger="book", state=TriggerState.SUSPENDED, reason="[red]\nline")
        drive(store.control.beat("token", [odd]))

        answer = doubtless("status", "--history", redis_url)

        assert "\\x1b[31mw" in answer.out
        assert "[red]\\nline" in answer.out
