"""Links over SQLite and PostgreSQL: order, exactly once, gaps, errors, hubs, schedules, resets."""

import json
from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, text

from history.bridge import drive
from history.memory import MemoryHistory
from history.sql.links.history import uuid_of
from history.sql.links.watermark import reset_on
from history.store import Epoch, Offset
from history.store.parking import ParkedKind
from tests.integration.providers.sqlremote.link_ends import ORDERS, Side, both, insert, linked
from tests.unit.helpers.lossy import Fate, LossyCarrier, seeded_fates
from triggers import ConfigurationError, Message, Status, trigger
from triggers.operations.running import run_parked
from triggers.providers.sqlremote.agent.end import LinkBusyError, utc_now
from triggers.providers.sqlremote.links import fresh_epoch

LATER = Epoch("29990101T000000000000-a")


@pytest.fixture
def pair(link_databases: Sequence[str]) -> Iterator[tuple[Side, Side]]:
    with linked(link_databases) as sides:
        yield sides


def test_transactions_arrive_whole_in_order_and_once(pair: tuple[Side, Side]) -> None:
    x, y = pair
    x.commit("a", "b")
    x.commit("c" * 200_000)
    y.commit("back")

    both(x, y, rounds=4)

    assert (y.got, x.got) == (["a", "b", "c" * 200_000], ["back"])
    assert (x.p, x.s, y.p, y.s) == ((2, 2, 0), (1, 0), (1, 1, 0), (2, 0))
    assert y.row().watermark.incoming.receive_count == 6, "one message, and five parts"


def test_v25_a_reset_is_the_callers_to_commit(pair: tuple[Side, Side]) -> None:
    x, y = pair
    x.commit("b")
    both(x, y, rounds=2)
    x.commit("c")
    before = x.row()

    async def reset(connection: Connection) -> None:
        await reset_on(connection, link="orders", epoch=LATER)

    with x.engine.connect() as connection:
        drive(reset(connection))
        connection.rollback()
    assert x.row() == before

    with x.engine.connect() as connection:
        drive(reset(connection))
        connection.commit()
    assert x.p == (2, 2, 0)
    assert x.row().watermark.outgoing.epoch == LATER


def test_v27_the_log_is_deleted_as_far_as_every_peer_has_it(link_databases: Sequence[str]) -> None:
    with linked(link_databases) as (x, y):
        x.names = ("orders", "third")
        x.restart()
        drive(x.links.setup("third"))
        for operation in "bcd":
            x.commit(operation)

        both(x, y, rounds=2)
        drive(x.receiver().agent.outgoing.log.prune())
        assert len(x.query("SELECT 1 FROM doubtless_link_log")) == 3, "the third peer has nothing yet"

        drive(x.links.history.watermarks.reset("third", epoch=fresh_epoch()))
        drive(x.receiver().agent.outgoing.log.prune())
        assert x.query("SELECT 1 FROM doubtless_link_log") == []
        assert drive(x.links.history.watermarks.end()).deleted_to == 3


def test_what_is_remembered_does_not_grow_with_messages(pair: tuple[Side, Side]) -> None:
    x, y = pair
    sizes: list[Any] = []
    for count in (5, 50):
        for number in range(count):
            x.commit(number)
        both(x, y, rounds=3)
        drive(x.receiver().agent.outgoing.log.prune())
        tables = ("doubtless_link_log", "sysremoteuser", "doubtless_history")
        stored = [len(side.back_up()[one]) for side in pair for one in tables]
        agent = y.receiver().agent
        held = len(agent.end.subscriber.cache), y.links.history.handed
        sizes.append((stored, held))

    assert sizes[0] == sizes[1] == ([0, 1, 1, 0, 1, 1], (0, 0))  # the history has only its anchor
    assert len(y.got) == 55


def test_the_work_of_a_link_is_not_echoed_but_goes_to_the_other_links(link_databases: Sequence[str]) -> None:
    def forward(operations: list[Any], connection: Connection) -> None:
        insert(operations, connection)
        ORDERS.append(connection, *operations)

    with linked(link_databases) as (x, y):
        y.names = ("orders", "third")
        y.service = forward
        y.restart()
        drive(y.links.setup("third"))
        x.commit("news")

        both(x, y, rounds=3)
        y.run("third")

        assert (x.got, y.p) == ([], (0, 0, 0)), "nothing went back"
        assert y.row("third").watermark.outgoing.log_sent == 1
        assert y.carrier.list("third-y"), "and the third end receives it"


def test_a_transaction_that_fails_is_parked_and_can_be_run_after_all(pair: tuple[Side, Side]) -> None:
    x, y = pair
    y.service = failing_on("poison")
    for operation in ("a", "poison", "b"):
        x.commit(operation)

    both(x, y, rounds=5)

    assert y.got == ["a", "b"], "what the service had done of it is undone"
    (parked,) = drive(y.links.history.parking.list())
    assert parked.message is not None
    assert (parked.message.body, x.p) == (["poison"], (3, 3, 0))

    y.service = insert
    outcome = drive(run_parked(y.trigger, parked, y.links.history.parking))
    again = drive(run_parked(y.trigger, parked, y.links.history.parking))

    assert (outcome.status, again.status) == (Status.NEW, Status.DUPLICATE)
    assert y.got == ["a", "b", "poison"]
    assert drive(y.links.history.parking.list()) == []


def test_a_process_that_dies_before_it_has_parked_parks_it_later(pair: tuple[Side, Side]) -> None:
    x, y = pair
    y.service = failing_on("poison")
    x.commit("poison")
    x.run()

    y.run(deliveries=1)  # it failed, and is recorded as failed
    assert drive(y.links.history.parking.list()) == []
    y.leave()
    y.restart()
    y.run()

    assert (len(drive(y.links.history.parking.list())), y.s) == (1, (1, 0))


def test_a_transaction_that_fails_may_be_skipped(link_databases: Sequence[str]) -> None:
    with linked(link_databases, on_apply_error="skip") as (x, y):
        y.service = failing_on("poison")
        for operation in ("a", "poison", "b"):
            x.commit(operation)

        both(x, y, rounds=3)

        assert (y.got, y.row().skipped, y.s) == (["a", "b"], 1, (3, 0))


def test_a_transaction_that_fails_may_halt_the_link(link_databases: Sequence[str]) -> None:
    with linked(link_databases, on_apply_error="halt") as (x, y):
        y.service = failing_on("poison")
        for operation in ("a", "poison", "b"):
            x.commit(operation)

        both(x, y, rounds=3)
        assert (y.got, y.s) == (["a"], (1, 0))
        assert "the transaction at 2 cannot be applied" in (y.row().stopped or "")

        y.service = insert
        drive(y.links.history.watermarks.stop("orders", None))
        both(x, y, rounds=3)
        assert (y.got, y.s) == (["a", "poison", "b"], (3, 0))


def nested(levels: int) -> list[Any]:
    made: list[Any] = []
    for _ in range(levels):
        made = [made]
    return made


@pytest.mark.parametrize(
    "operation",
    ["no JSON", "[" * 100_000 + "]" * 100_000, json.dumps(nested(230))],
    ids=["no-json", "endless", "deep"],
)
def test_a_transaction_that_cannot_be_read_is_parked_or_halts_the_link(
    link_databases: Sequence[str], operation: str
) -> None:
    with linked(link_databases) as (x, y):
        x.commit("a")
        both(x, y)
        for name in "bbc":
            x.commit(name)
        with x.engine.begin() as connection:
            connection.execute(
                text("UPDATE doubtless_link_log SET operation = :operation WHERE commit_offset IN (2, 3)"),
                {"operation": operation},
            )

        y.leave()
        y.restart(on_apply_error="halt")
        both(x, y, rounds=2)
        assert (y.got, y.s) == (["a"], (1, 0))
        assert "the transaction at 2 cannot be applied" in (y.row().stopped or "")

        drive(y.links.history.watermarks.stop("orders", None))
        y.leave()
        y.restart(on_apply_error="park")
        both(x, y, rounds=2)
        assert (y.got, y.s) == (["a", "c"], (4, 0))
        parked = drive(y.links.history.parking.list())
        assert [one.kind for one in parked] == [ParkedKind.UNREADABLE] * 2


def test_a_transient_failure_is_tried_again_before_anything_else(pair: tuple[Side, Side]) -> None:
    x, y = pair
    y.service = away_for("b", times=2)
    for operation in "abc":
        x.commit(operation)

    both(x, y, rounds=6)

    assert y.got == ["a", "b", "c"]


def test_what_was_fetched_behind_a_failure_waits_for_its_turn(pair: tuple[Side, Side]) -> None:
    x, y = pair
    x.commit("a")
    both(x, y)
    y.service = away_for("b", times=1)
    for operation in "bc":
        x.commit(operation)
    x.run()

    receiver, pipeline = y.receiver(), y.trigger.pipeline()
    fetched = drive(receiver.receive(20, timedelta(0)))
    outcomes = [drive(pipeline.deliver(receiver, [one]))[0] for one in fetched]

    assert [outcome.acknowledge for outcome in outcomes] == [False, False]
    assert y.got == ["a"]
    both(x, y, rounds=2)
    assert y.got == ["a", "b", "c"]


def test_below_the_watermark_is_a_duplicate_and_beyond_the_next_is_in_progress(
    pair: tuple[Side, Side],
) -> None:
    x, y = pair
    x.commit("a")
    both(x, y)
    epoch = x.row().watermark.outgoing.epoch

    below, beyond = (
        y.trigger.handle(Message(body=["a"], uuid=uuid_of("orders", epoch, Offset(one)))) for one in (1, 2)
    )

    assert (below.status, below.row, below.executed) == (Status.DUPLICATE, 8, False)
    assert (beyond.row, beyond.executed, beyond.acknowledge) == (12, False, False)
    assert y.got == ["a"]


def test_a_second_agent_waits_until_the_first_has_left(pair: tuple[Side, Side]) -> None:
    x, _ = pair
    x.run()
    first = x.receiver()
    x.restart()

    with pytest.raises(LinkBusyError) as raised:
        x.run()
    assert str(raised.value.__cause__) == f"{first.agent.end.token} runs it"
    drive(first.close())
    drive(first.agent.end.history.close())
    x.run()


def test_an_agent_that_has_lost_its_link_applies_nothing(pair: tuple[Side, Side]) -> None:
    x, y = pair
    x.commit("a")
    x.run()

    def taken_over(operations: list[Any], connection: Connection) -> None:
        insert(operations, connection)
        connection.execute(text("UPDATE sysremoteuser SET doubtless_agent = 'thief:1:x'"))

    y.service = taken_over
    (outcome,) = y.run(deliveries=1)

    assert not outcome.acknowledge
    assert (y.got, y.s) == ([], (0, 0)), "the thief's token was rolled back with the work"
    y.service = insert
    y.clock.pass_by()
    y.run()
    assert y.got == ["a"]


def test_a_link_is_reset_while_its_agent_runs(pair: tuple[Side, Side]) -> None:
    x, y = pair
    x.commit("a")
    both(x, y, rounds=2)

    after = drive(x.links.history.watermarks.reset("orders", epoch=fresh_epoch()))
    drive(y.links.history.watermarks.reset("orders", peer=(after.watermark.outgoing.epoch, Offset(1))))
    x.commit("b")
    for side in pair:
        side.clock.pass_by(timedelta(seconds=2))
        with pytest.raises(Exception, match="unavailable while running it"):
            side.run()
    both(x, y, rounds=2)

    assert (y.got, x.p) == (["a", "b"], (2, 2, 0))


@pytest.mark.parametrize("seed", range(2))
def test_a_carrier_with_every_fault_drains(link_databases: Sequence[str], seed: int) -> None:
    carrier = LossyCarrier(seeded_fates(seed, fault_rate=0.3))
    quick = {"repeat_after": 60, "probe_after": 120}
    with linked(link_databases, carrier, **quick) as (x, y):
        for number in range(12):
            x.commit(number, "n" * (number * 9000))
            y.commit(-number)
            both(x, y)
            if number % 4 == seed:
                x.leave()
                x.restart()
        carrier.fate = lambda: Fate.ARRIVES
        both(x, y, rounds=12)

        assert y.got == [one for number in range(12) for one in (str(number), "n" * (number * 9000))]
        assert x.got == [str(-number) for number in range(12)]
        assert (x.p[:2], y.p[:2]) == ((12, 12), (12, 12))


def test_the_gate_opens_every_so_often(link_databases: Sequence[str]) -> None:
    with linked(link_databases, send="every 00:10:00") as (x, y):
        x.commit("a")
        both(x, y)
        assert x.p[0] == 1, "a peer that was never served is due immediately"

        x.commit("b")
        both(x, y, rounds=5)
        assert (x.p[0], x.row().watermark.outgoing.log_send) == (1, 1)
        both(x, y, rounds=6)
        assert (x.p[0], y.got) == (2, ["a", "b"])


def test_a_link_with_nothing_to_send_does_not_open_the_gate_of_another(tmp_path: Path) -> None:
    every = {"send": "every 00:10:00"}
    x = Side("x", "y", f"sqlite:///{tmp_path}/x.db", settings=every, names=("orders", "b"))
    x.commit("for both")
    for name in x.names:
        x.run(name)
    drive(x.links.history.watermarks.stop("b", "for a while"))

    sent: list[int] = []
    for number in range(40):
        x.clock.pass_by()
        x.commit(number)
        for name in x.names:
            x.run(name)
        sent.append(x.p[0])
    x.leave()
    x.engine.dispose()

    assert len({*sent}) == 5, "what was sent at first, and four times since"


def test_a_program_that_runs_now_and_then_sends_at_the_time_of_the_day(
    link_databases: Sequence[str],
) -> None:
    with linked(link_databases, send="at 22:00") as (x, y):
        x.clock.now = y.clock.now = utc_now()
        x.commit("a")
        for _ in range(25):  # it may be just after 22:00 now
            x.leave()
            x.restart()
            x.run()
            x.clock.pass_by(timedelta(hours=1))
        y.run()

        assert y.got == ["a"]


def test_ends_with_different_message_sizes_are_noticed(
    link_databases: Sequence[str], caplog: pytest.LogCaptureFixture
) -> None:
    with linked(link_databases) as (x, y):
        y.leave()
        y.restart(message_size=1000)
        x.commit("a" * 5000)
        both(x, y)

        assert (y.got, y.s) == ([], (0, 0))
        (told,) = [record for record in caplog.records if record.name.endswith("agent.incoming")]
        assert (told.levelname, "message_size=1000" in told.getMessage()) == ("WARNING", True)


def test_a_link_keeps_its_publication(tmp_path: Path) -> None:
    x = Side("x", "y", f"sqlite:///{tmp_path}/x.db")
    x.leave()
    x.restart(publication="sales")

    with pytest.raises(ConfigurationError) as raised:
        drive(x.links.setup("orders"))

    assert raised.value.setting == "links.orders.publication"
    x.leave()
    x.engine.dispose()


def test_a_message_from_nobody_is_kept_aside_and_told_of(
    link_databases: Sequence[str], tmp_path: Any
) -> None:
    (tmp_path / "key").write_bytes(b"a key of the link's own")
    with linked(link_databases, keys=[str(tmp_path / "key")]) as (x, y):
        x.commit("a")
        x.run()
        names = x.carrier.list("y")
        assert isinstance(names, list)
        *_, name = names  # its greeting, its state of the other direction, and the work
        signed = x.carrier.get("y", name)
        assert isinstance(signed, bytes)
        for data in (b"work for you", signed[:-1] + bytes([signed[-1] ^ 1])):
            y.carrier.put("y", data)
        y.carrier.put("x", signed)  # sent back to its sender

        both(x, y, rounds=2)

        assert (y.got, y.s) == (["a"], (1, 0))
        assert len(drive(y.links.history.parking.list())) == 2
        assert (len(drive(x.links.history.parking.list())), x.got) == (1, [])


def test_a_link_tells_its_hooks(link_databases: Sequence[str]) -> None:
    with linked(link_databases, hooks="tests.integration.providers.sqlremote.link_hooks:Heard") as (x, y):
        x.commit("a")

        both(x, y)

        hooks: Any = y.receiver().agent.end.hooks
        assert hooks.heard == [
            *("begin", "receive_begin", "message_apply_begin", "message_apply_end", "message_sent"),
            *("receive_end", "message_sent", "send_begin", "send_end"),
        ]


def test_another_history_of_the_triggers_own_lets_the_watermark_follow(pair: tuple[Side, Side]) -> None:
    x, y = pair
    effects: list[Any] = []

    @trigger("link:orders", name="apply", history=MemoryHistory())
    def apply(operations: list[Any]) -> None:
        effects.extend(operations)

    y.trigger = apply
    for operation in "abc":
        x.commit(operation)

    both(x, y, rounds=2)

    assert (effects, y.s, x.p) == (["a", "b", "c"], (3, 0), (3, 3, 0))


def test_a_service_without_the_links_transaction_is_refused(pair: tuple[Side, Side]) -> None:
    x, y = pair

    @trigger("link:orders", name="apply", history=y.links.history)
    def apply(operations: list[Any]) -> None: ...

    y.trigger = apply
    x.commit("a")
    x.run()

    with pytest.raises(ConfigurationError, match="take a Connection"):
        y.run()


def failing_on(poison: str) -> Any:
    def service(operations: list[Any], connection: Connection) -> None:
        insert(operations, connection)
        if poison in operations:
            raise ValueError(poison)

    return service


def away_for(operation: str, *, times: int) -> Any:
    """Return a service that fails to apply an operation the first few times."""
    failures = iter([True] * times)

    def service(operations: list[Any], connection: Connection) -> None:
        if operations == [operation] and next(failures, False):
            raise ConnectionError("away")
        insert(operations, connection)

    return service


def test_closing_closes_everything_although_a_carrier_fails(pair: tuple[Side, Side]) -> None:
    closed = list[str]()

    class Failing(LossyCarrier):
        def close(self) -> None:
            closed.append("carrier")
            raise OSError("broken")

    side = pair[0]
    side.receiver()
    vars(side.links)["_carriers"] |= {"orders": Failing(), "others": Failing()}

    with pytest.raises(OSError, match="broken"):
        drive(side.links.close())

    assert closed == ["carrier", "carrier"]
