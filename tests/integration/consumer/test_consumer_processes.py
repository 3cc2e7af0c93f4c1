"""``doubtless run`` as real processes: signals, exits, stops, and the supervisor of many."""

import os
import signal

import pytest

from history.entry import EntryOutcome, State
from tests.fixtures.waiting import eventually
from tests.integration.helpers.consumers import entry_in, is_drained, parked_in, send
from tests.integration.helpers.service_process import Steering, is_running

#: So soon that a message is delivered again before its lease is over.
FASTER = "?claim_idle=0.5&reclaim_interval=0.1"

#: The streams and triggers of a plain service and of a coroutine function.
both = pytest.mark.parametrize("name", ["blocking", "asyncio"])
either_signal = pytest.mark.parametrize(
    "number",
    [signal.SIGTERM, pytest.param(signal.SIGINT, marks=pytest.mark.prove)],
    ids=lambda number: number.name,
)


def run_only(name: str, url: str, provider_query: str = "") -> list[str]:
    return ["--trigger", name, "--provider", url + provider_query, "--history", url]


class TestSignals:
    @both
    @either_signal
    def test_a_signal_lets_the_service_end_and_gives_back_what_was_only_fetched(
        self, steering: Steering, redis_url: str, name: str, number: signal.Signals
    ) -> None:
        send(redis_url, name, "a", "b", body="wait")

        with steering.serve(*run_only(name, redis_url)) as served:
            steering.wait_for("begun", "a")
            served.send(number)
            eventually(lambda: "draining" in served.log)
            steering.let_end("a", "b")
            assert served.wait() == 0
        ended = steering.noted("done")
        with steering.serve(*run_only(name, redis_url)):
            # Soon: a process that only died would count as dead after half a minute.
            eventually(lambda: is_drained(redis_url, name))

        assert [uuid for uuid, _ in ended] == ["a"]
        assert [uuid for uuid, _ in steering.noted("begun")] == ["a", "b"]
        assert parked_in(redis_url, name) == []

    @both
    @either_signal
    def test_a_second_signal_ends_the_process_at_once(
        self, steering: Steering, redis_url: str, name: str, number: signal.Signals
    ) -> None:
        send(redis_url, name, "hangs", body="wait")

        with steering.serve(*run_only(name, redis_url)) as served:
            steering.wait_for("begun", "hangs")
            served.send(number)
            eventually(lambda: "draining" in served.log)
            served.send(number)
            code = served.wait()

        entry = entry_in(redis_url, name, "hangs")
        assert code == 128 + number
        assert entry is not None
        assert entry.state is State.STARTED
        assert not is_drained(redis_url, name)


class TestCopiesThatMeet:
    """A resolver that looks for the effect, as in README, and a slow service."""

    ORDERS = tuple(f"order-{number}" for number in range(10))

    def send_twice(self, url: str, destination: str, body: str = "") -> None:
        send(url, destination, *(order for order in self.ORDERS for _ in range(2)), body=body)

    @pytest.mark.prove
    def test_without_a_lease_the_resolver_has_them_booked_twice(
        self, steering: Steering, redis_url: str
    ) -> None:
        """Without a lease, copies run twice. This proves that the other test can fail."""
        self.send_twice(redis_url, "hasty")

        words = run_only("hasty", redis_url)
        with steering.serve(*words), steering.serve(*words) as second:
            eventually(lambda: is_drained(redis_url, "hasty"))
            log = second.log

        assert len(steering.noted("begun")) > len(self.ORDERS)
        assert "lease=None, so its resolver is asked about a copy while the first run goes on" in log

    def test_one_of_them_is_killed_and_each_order_is_booked_once(
        self, steering: Steering, redis_url: str
    ) -> None:
        self.send_twice(redis_url, "looked-up-soon", body="wait")

        words = run_only("looked-up-soon", redis_url, FASTER)
        with steering.serve(*words) as first, steering.serve(*words) as second:
            eventually(lambda: pids_of(steering) == {first.pid, second.pid})
            first.send(signal.SIGKILL)
            steering.let_end(*self.ORDERS)
            eventually(lambda: is_drained(redis_url, "looked-up-soon"))
            second.send(signal.SIGTERM)
            assert second.wait() == 0

        done = [uuid for uuid, _ in steering.noted("done")]
        assert sorted(done) == sorted(self.ORDERS)
        assert len(steering.noted("begun")) > len(done)
        assert parked_in(redis_url, "looked-up-soon") == []


def pids_of(steering: Steering, what: str = "begun") -> set[int]:
    return {pid for _, pid in steering.noted(what)}


def line_of(log: str, words: str) -> str:
    return next(line for line in log.splitlines() if words in line)


class TestLeases:
    @pytest.mark.parametrize("next_has_ended", [True, pytest.param(False, marks=pytest.mark.prove)])
    def test_a_run_that_hangs_past_its_lease_loses_its_fence_to_the_next_one(
        self, steering: Steering, redis_url: str, *, next_has_ended: bool
    ) -> None:
        words = run_only("resolved", redis_url, FASTER)
        send(redis_url, "resolved", "slow", body="wait")

        with steering.serve(*words) as first:
            steering.wait_for("begun", "slow")
            first.send(signal.SIGSTOP)
            with steering.serve(*words) as second:
                eventually(lambda: len(steering.noted("begun")) > 1)
                if next_has_ended:
                    steering.let_end("slow")
                    eventually(lambda: is_drained(redis_url, "resolved"))
                taken = entry_in(redis_url, "resolved", "slow")
                steering.let_end(f"slow.{first.pid}")
                first.send(signal.SIGCONT)
                eventually(lambda: "its end is not recorded" in first.log)
                untouched = entry_in(redis_url, "resolved", "slow")
                steering.let_end("slow")
                eventually(lambda: is_drained(redis_url, "resolved"))
                for process in (first, second):
                    process.send(signal.SIGTERM)
                    assert process.wait() == 0

        left = entry_in(redis_url, "resolved", "slow")
        assert taken is not None
        assert untouched is not None
        assert left is not None
        assert (untouched.state, untouched.fence) == (taken.state, taken.fence)
        assert (left.outcome, left.fence) == (EntryOutcome.OK, taken.fence)
        assert [pid for _, pid in steering.noted("begun")] == [first.pid, second.pid]
        assert f":{first.pid}:" in line_of(second.log, "takes the entry over from")
        assert f":{first.pid}:" in line_of(first.log, "its end is not recorded")

    def test_a_message_is_not_touched_while_its_lease_is_alive_and_in_doubt_afterwards(
        self, steering: Steering, redis_url: str
    ) -> None:
        words = run_only("leased", redis_url, FASTER)
        send(redis_url, "leased", "slow", body="wait")

        with steering.serve(*words) as first:
            steering.wait_for("begun", "slow")
            begun = entry_in(redis_url, "leased", "slow")
            first.send(signal.SIGSTOP)
            with steering.serve(*words):
                eventually(lambda: parked_in(redis_url, "leased"))
                eventually(lambda: is_drained(redis_url, "leased"))

        [parked] = parked_in(redis_url, "leased")
        assert begun is not None
        assert begun.lease_until is not None
        assert parked.reason.endswith("(row 10)")
        assert parked.parked_at >= begun.lease_until
        assert [pid for _, pid in steering.noted("begun")] == [first.pid]


class TestProcesses:
    def test_a_killed_child_is_replaced_and_a_signal_is_handed_on(
        self, steering: Steering, redis_url: str
    ) -> None:
        name = "one-at-a-time"
        # A dead consumer's name is free again after half a minute of silence.
        words = [*run_only(name, redis_url), "--processes", "2", "--name", "worker"]
        send(redis_url, name, "a", "b", body="wait")

        with steering.serve(*words) as supervisor:
            children = {steering.wait_for("begun", uuid) for uuid in "ab"}
            os.kill(steering.wait_for("begun", "a"), signal.SIGKILL)
            send(redis_url, name, "c", body="wait")
            replacement = steering.wait_for("begun", "c")
            supervisor.send(signal.SIGTERM)
            steering.let_end("b", "c")
            code = supervisor.wait()

        assert len(children) == 2
        assert replacement not in children
        assert code == 0
        assert sorted(uuid for uuid, _ in steering.noted("done")) == ["b", "c"]
        assert not any(is_running(pid) for pid in {*children, replacement})

    def test_children_drain_and_end_when_their_parent_is_killed(
        self, steering: Steering, redis_url: str
    ) -> None:
        name = "one-at-a-time"
        send(redis_url, name, "a", "b", body="wait")

        with steering.serve(*run_only(name, redis_url), "--processes", "2") as supervisor:
            children = {steering.wait_for("begun", uuid) for uuid in "ab"}
            supervisor.send(signal.SIGKILL)
            supervisor.wait()
        steering.let_end("a", "b")

        eventually(lambda: not any(is_running(pid) for pid in children))
        assert sorted(uuid for uuid, _ in steering.noted("done")) == ["a", "b"]
        assert is_drained(redis_url, name)

    def test_the_supervisor_ends_when_all_its_children_are_idle(
        self, steering: Steering, redis_url: str
    ) -> None:
        send(redis_url, "blocking", *"abcdef")

        with steering.serve(
            *run_only("blocking", redis_url), "--processes", "2", "--until-idle", "0.5"
        ) as supervisor:
            assert supervisor.wait() == 0

        assert sorted(uuid for uuid, _ in steering.noted("done")) == list("abcdef")
        assert is_drained(redis_url, "blocking")

    def test_wrong_configuration_is_not_tried_again(self, steering: Steering) -> None:
        words = ["--provider", "carrier-pigeon://", "--history", "memory://", "--processes", "2"]

        with steering.serve(*words) as supervisor:
            assert supervisor.wait() == 2
        assert "unknown URL scheme" in supervisor.log
