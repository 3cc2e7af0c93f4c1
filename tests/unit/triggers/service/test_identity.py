"""``uuid=``: the trigger reads the identity from a message, because another system sends it."""

from typing import Any

import pytest

from history import ConfigurationError, MemoryHistory, Parked
from history.bridge import drive, settled
from resolvers import Resolution
from triggers import Cause, Delivery, Joined, Message, Outcome, Status, Trigger, on_retrieval_failure, trigger
from triggers.operations.running import run_parked
from triggers.providers.outgoing import compose_reply


def made(
    uuid: Any, *history: MemoryHistory | None, **options: Any
) -> tuple[Trigger[..., Any], list[str | None]]:
    seen: list[str | None] = []
    (given,) = history or (MemoryHistory(),)

    @trigger("orders", name="t", history=given, uuid=uuid, **options)
    def service(delivery: Delivery, message: Message) -> None:
        assert delivery.uuid == message.uuid
        seen.append(delivery.uuid)

    return service, seen


@pytest.mark.parametrize("asynchronously", [False, True])
@pytest.mark.parametrize("body", [b'{"event": [{"id": "e-1"}]}', '{"event": [{"id": "e-1"}]}', None])
async def test_what_a_sender_repeats_under_new_identities_runs_once(
    body: bytes | str | None, *, asynchronously: bool
) -> None:
    service, seen = made("body.event[0].id")
    sent: Any = body or {"event": [{"id": "e-1"}]}
    handle = service.ahandle if asynchronously else service.handle

    outcomes = [
        await settled(handle(Message(body=sent, uuid=f"u-{n}", message_id=f"ID:{n}"))) for n in (1, 2)
    ]

    assert [outcome.status for outcome in outcomes] == [Status.NEW, Status.DUPLICATE]
    assert [outcome.uuid for outcome in outcomes] == ["e-1", "e-1"]
    assert seen == ["e-1"]


def test_copies_in_one_batch_wait_for_each_other() -> None:
    service, seen = made("properties.event_id")
    messages = [
        Message(body="", message_id=f"ID:{n}", properties={"event_id": event})
        for n, event in enumerate(("a", "b", "a", "a"))
    ]

    statuses = [outcome.status for outcome in service.handle_batch(messages)]

    assert statuses == [Status.NEW, Status.NEW, Status.DUPLICATE, Status.DUPLICATE]
    assert seen == ["a", "b"]


MISSING: tuple[Any, ...] = (
    {},
    {"id": None},
    {"id": ""},
    {"id": 1.0},
    {"id": True},
    {"id": [{"a": 1}]},
    {"id": []},
    {"id": {"a": 1}},
    ["id"],
    "no JSON",
    b"\xff",
    '{"id": NaN}',
)


@pytest.mark.parametrize("history", [True, False], ids=["history", "none"])
@pytest.mark.parametrize("body", MISSING, ids=repr)
def test_a_message_without_identity_is_rejected_and_parked_with_the_reason(
    body: Any, *, history: bool
) -> None:
    lot = MemoryHistory().parking
    service, seen = made("body.id", MemoryHistory() if history else None, parking=lot)
    sent = Message(body=body, uuid="sent", message_id="ID:1", delivery_count=1)

    outcome = service.handle(sent)

    (parked,) = parked_in(lot)
    assert (outcome.row, outcome.rejected, outcome.acknowledge, outcome.parked) == (19, True, True, True)
    assert outcome.event is not None
    assert outcome.event.cause is Cause.NO_IDENTITY
    assert "uuid=body.id: " in parked.reason
    assert (parked.uuid, parked.message, seen) == (None, sent.known_by(None), [])


def parked_in(lot: Any) -> list[Parked]:
    return list(drive(lot.list(trigger="t")))


def test_a_function_that_fails_leaves_the_message_without_identity() -> None:
    def identify(message: Message) -> str:
        return str(message.properties["event_id"])

    service, seen = made(identify)

    outcome = service.handle(Message(body="", uuid="sent"))

    assert outcome.row == 19
    assert outcome.rejected
    assert isinstance(outcome.error, KeyError)
    assert seen == []


def test_what_the_function_does_to_the_body_stays_there() -> None:
    def identify(message: Message) -> str:
        assert isinstance(message.body, dict)
        return str(message.body.pop("id"))

    bodies: list[Any] = []

    @trigger("orders", name="t", history=MemoryHistory(), uuid=identify)
    def service(order: dict[str, Any]) -> None:
        bodies.append(order)

    service.handle(Message(body={"id": 1}))

    assert bodies == [{"id": 1}]


def test_what_was_delivered_too_often_is_not_asked() -> None:
    def identify(message: Message) -> str:
        raise KeyboardInterrupt

    service, _ = made(identify, max_delivery_count=3)

    assert service.handle(Message(body="", message_id="ID:1", delivery_count=4)).row == 1


def test_a_larger_body_than_allowed_is_not_decoded_for_its_identity() -> None:
    service, _ = made("body.id", max_body_size=10)

    outcome = service.handle(Message(body='{"id": "12345"}', message_id="ID:1"))

    assert outcome.row == 19
    assert "max_body_size=10" in outcome.reason


def test_the_resolver_the_event_and_the_parked_copy_have_the_identity() -> None:
    history = MemoryHistory()
    asked: list[str] = []
    heard: list[str | None] = []

    def resolver(uuid: str, trigger_name: str, message: Message) -> Resolution:
        asked.append(uuid)
        raise ValueError

    @on_retrieval_failure(trigger="identity-events")
    def hear(event: Any) -> None:
        heard.append(event.uuid)

    @trigger("orders", name="identity-events", history=history, uuid="body.id", lease=None, resolver=resolver)
    def service(order: dict[str, Any]) -> None:
        raise SystemExit

    message = Message(body={"id": "e-1"}, uuid="sent")
    with pytest.raises(SystemExit):
        service.handle(message)
    service.handle(message)

    (parked,) = drive(history.parking.list(trigger="identity-events"))
    read_back = Parked.model_validate_json(parked.model_dump_json())
    assert (asked, heard) == (["e-1"], ["e-1"])
    assert (parked.uuid, read_back.uuid) == ("e-1", "e-1")
    assert read_back.message is not None
    assert (read_back.message.uuid, read_back.message.sent_uuid) == ("e-1", "sent")


def test_a_parked_message_runs_under_its_identity() -> None:
    history = MemoryHistory()
    failing = [True]

    @trigger("orders", name="t", history=history, uuid="body.id")
    def service(order: dict[str, Any]) -> None:
        if failing:
            raise ValueError

    service.handle(Message(body={"id": "e-1"}, message_id="ID:1"))
    failing.clear()
    (parked,) = parked_in(history.parking)
    outcome: Outcome = drive(run_parked(service, parked, history.parking))
    copy = service.handle(Message(body={"id": "e-1"}, message_id="ID:2"))

    assert (outcome.status, outcome.uuid) == (Status.NEW, "e-1")
    assert copy.status is Status.DUPLICATE


def test_the_parts_of_a_join_are_known_by_it_and_the_whole_is_not_asked() -> None:
    runs: list[int] = []

    @trigger(["a", "b"], name="t", history=MemoryHistory(), join="all", uuid="body.id")
    def service(joined: Joined) -> None:
        runs.append(len(joined))

    def part(destination: str, message_id: str) -> Message:
        return Message(
            body={"id": destination},
            message_id=message_id,
            destination=destination,
            properties={"activation": "x"},
        )

    outcomes = [
        service.handle(part(*of)) for of in (("a", "ID:1"), ("a", "ID:2"), ("b", "ID:3"), ("b", "ID:4"))
    ]

    assert [outcome.status for outcome in outcomes] == [
        Status.NEW,
        Status.DUPLICATE,
        Status.NEW,
        Status.DUPLICATE,
    ]
    assert runs == [2]


def test_spark_names_a_column_instead() -> None:
    pytest.importorskip("pyspark")

    @trigger("orders", name="t", history="redis://127.0.0.1:1/0", uuid="body.id")
    def service(order: dict[str, Any]) -> None: ...

    with pytest.raises(ConfigurationError, match="second identity beside the column"):
        service.foreach_batch(uuid="event_id")


def test_a_reply_correlates_by_what_the_requester_sent() -> None:
    request = Message(body={"id": 1}, message_id="ID:1", reply_to="replies").known_by("1")

    assert compose_reply(request, "done").correlation_id == "ID:1"
