"""Every option that users set has a type check: the error names the option, the remedy, and their line."""

import asyncio
import inspect
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from datetime import timedelta
from pathlib import Path
from typing import Any, cast, get_type_hints

import pytest

from history import ConfigurationError, MemoryHistory, Message
from history.bridge import drive, settled
from tests import ROOT
from triggers import CARD_NUMBERS, AsyncConsumer, Consumer, Producer, Retry, Trigger, trigger
from triggers.detection.table import Policy
from triggers.guards import protect
from triggers.guards.arguments import TaskOptions
from triggers.guards.faststream.middleware import HandlerOptions
from triggers.providers.memory import MemoryProvider
from triggers.service.options import GuardOptions, HostOptions, TriggerOptions
from triggers.service.settings import TRIGGER_DEFAULTS, Settings
from triggers.spark.atomic_sink import atomic_sink
from triggers.spark.decorator import foreach_batch
from triggers.spark.settings import BatchOptions, SinkOptions


class Unshowable:
    def __repr__(self) -> str:
        raise RuntimeError


NOW = timedelta(0)
NO_TEXT = ("", 5, b"orders", ["orders"], Unshowable(), 10**5000)
NO_NAME = ("", " ", " \n", 5, Unshowable(), 10**5000, "x" * 201, "a\0b", "half \ud800")
NO_COUNT = (0, -1, 1.5, "10", True, None, 2**31, 10**40, 10**5000, -(10**5000))
NO_SWITCH = ("no", "yes", 0, 1, None, Unshowable())
NO_DURATION = (5, 10**5000, "1 h", NOW, -timedelta(1), timedelta.max)
NO_HISTORY = ("mysql://localhost/orders", "localhost:6379", "orders.sqlite3", "redsi://:secret@host")
NO_CHOICE = ("guess", 5, True, ["park"], Unshowable())


class Nothing:
    @staticmethod
    async def asynchronously(*arguments: Any) -> None: ...

    @staticmethod
    def with_one(argument: Any) -> None: ...


#: Values that each option of ``@trigger`` refuses.
TRIGGER: Mapping[str, Sequence[Any]] = {
    "destination": (*NO_NAME, [], ["orders", 5], {"orders"}, None, print),
    "name": NO_NAME,
    "history": ("", 5, MemoryHistory, object(), *NO_HISTORY),
    "resolver": (5, object(), "", "no such module:function"),
    "max_delivery_count": NO_COUNT,
    "uuid": (lambda: "", 5, "", "event_id", "body", "body.a b", "body.a = 1", "properties.a.b", "properties"),
    "on_duplicate": (Nothing.with_one, 5, "", "orders", Nothing.asynchronously),
    "detect_duplicates": NO_SWITCH,
    "shadow": NO_SWITCH,
    "keep_result": ("yes", 0, 1, None, timedelta(1), {"limit": 5}),
    "fingerprint": (Unshowable(), 5, "", "header", True, Nothing.asynchronously, lambda: b""),
    "journal": ("", 0, 5, None, MemoryHistory(), *NO_HISTORY),
    "tracing": NO_SWITCH,
    "redact": (5, "card", [], (), [CARD_NUMBERS, None], {CARD_NUMBERS}, asyncio.sleep),
    "history_time_to_live": (*NO_DURATION, None),
    "lease": NO_DURATION,
    "in_doubt": (*NO_CHOICE, None),
    "retry": (3, 0, False, "3", timedelta(1)),
    "redelivery": (3, 0, False, "3", timedelta(1), Retry()),
    "on_retry_failure": (*NO_CHOICE, None),
    "on_history_error": (*NO_CHOICE, None),
    "on_rollback": (*NO_CHOICE, None),
    "suspend_on_error": NO_SWITCH,
    "forgotten": (*NO_CHOICE, None),
    "resolved_duplicate": (*NO_CHOICE, None),
    "redelivery_horizon": NO_DURATION,
    "transient": (
        *(ConnectionError, [ConnectionError], ("ConnectionError",), (KeyboardInterrupt,), None),
        asyncio.sleep,
        lambda: True,
    ),
    "monitor": (5, "monitor", True, Nothing.with_one),
    "monitor_interval": (*NO_DURATION, None),
    "transacted": NO_SWITCH,
    "concurrency": NO_COUNT,
    "prefetch": NO_COUNT,
    "batch": NO_COUNT,
    "acknowledge_mode": (*NO_CHOICE, None),
    "max_body_size": (*(value for value in NO_COUNT if value != 2**31), 2**63),
    "parking": (5, "", object(), MemoryHistory, *NO_HISTORY),
    "local_parking_file": ("parked.sqlite3", 5),
    "raise_event_on_exception": NO_SWITCH,
    "raise_event_on_retry_failure": NO_SWITCH,
    "join": (*NO_CHOICE, None),
    "join_timeout": NO_DURATION,
    "ordered": NO_SWITCH,
    "selector": (5, "region ="),
    "filter": (5, "region =", lambda: True),
}

RETRY: Mapping[str, Sequence[Any]] = {
    "max_attempts": (-1, 1.5, "3", True, None, 2**31, 10**5000),
    "interval": (1, "1 s", -timedelta(1), None),
    "backoff": (0.5, "2", float("nan"), True, None),
    "max_interval": (60, -timedelta(1), timedelta.max, None),
}

#: Values that the common options of ``foreach_batch`` and ``atomic_sink`` refuse.
SPARK: Mapping[str, Sequence[Any]] = {
    "destination": NO_NAME,
    "uuid": (*NO_TEXT, None),
    "history": ("", 5, None, MemoryHistory(), "memory://", *NO_HISTORY),
    "message_id": NO_TEXT,
    "delivery_count": NO_TEXT,
    "body": NO_TEXT,
    "fingerprint": (5, "", [], [""], [5], b"body"),
    "name": NO_NAME,
    "query": NO_TEXT,
    "resolver": (5, object(), "no such module:function"),
    "on_fatal": (*NO_CHOICE, None),
    "on_reset": (*NO_CHOICE, None),
    "in_doubt": (*NO_CHOICE, None),
    "max_delivery_count": NO_COUNT,
    "history_time_to_live": (*NO_DURATION, None),
    "transient": TRIGGER["transient"],
    "redact": TRIGGER["redact"],
    "patience": (*NO_DURATION, None),
    "reprocess": (5, "", b"refill"),
    "partitions": (0, -1, 1.5, "10", True, 10**40),
    "on_batch": (5, "print", lambda: None, Nothing.asynchronously),
}

FOREACH_BATCH: Mapping[str, Sequence[Any]] = {
    **SPARK,
    "on_replay": (5, "guess", None),
    "committed": (5, "yes", True, lambda: True, Nothing.asynchronously),
    "lease": TRIGGER["lease"],
    "retry": TRIGGER["retry"],
    "parking": (5, "", object(), "memory://", *NO_HISTORY),
    "parked_to": (5, "table", Nothing.with_one, Nothing.asynchronously),
    "claims": (0, -1, 1.5, "10", True),
    "storage": (*NO_CHOICE, None),
}

ATOMIC_SINK: Mapping[str, Sequence[Any]] = {
    **SPARK,
    "write": (5, "table", None),
    "rows_per_transaction": NO_COUNT,
}

PRODUCER: Mapping[str, Sequence[Any]] = {
    "provider": ("", 5, None, MemoryProvider, object(), "carrier-pigeon://"),
    "alias": NO_TEXT,
    "queue": ("", 5, b"queue", "/no/such/folder/queue.db"),
    "queue_limit": (-2, 1.5, "10", True, None, 10**5000),
    "encrypt": ("", 5, b"key", "/run/secrets/key", "file:/no/such/file", "env:NO_SUCH_VARIABLE"),
    "ordered": NO_SWITCH,
    "tracing": NO_SWITCH,
    "retry": (*TRIGGER["retry"], None),
    "max_redelivery_count": NO_COUNT,
}

CONSUMER: Mapping[str, Sequence[Any]] = {
    "triggers": ([], [print], None, "book", 5),
    "provider": PRODUCER["provider"],
    "history": ("", 5, object(), MemoryHistory),
    "name": NO_NAME,
    "observe": (5, "observe", lambda: None, Nothing.asynchronously),
    "parent": (0, "1", True),
    "metrics": (9464, "", "9464", "host", "host:port"),
}

RUN: Mapping[str, Sequence[Any]] = {
    "signals": NO_SWITCH,
    "until_idle": (-1, "5", True, float("nan")),
    "started": (5, "say", Nothing.with_one, Nothing.asynchronously),
}

ROWS: Mapping[str, Sequence[Any]] = {"calls_per_second": (0, -1, "10", True, float("inf"))} | {
    name: SPARK[name]
    for name in (
        *("uuid", "message_id", "delivery_count", "body", "query", "patience"),
        *("partitions", "on_batch"),
    )
}

ROUTE: Mapping[str, Sequence[Any]] = {"name": ("", 5, None), "filter": (5, None, "region =")}


def service(message: Message) -> None:
    raise AssertionError("must not run")


def batch_function(new: Any, batch_id: int) -> None:
    raise AssertionError("must not run")


def make_trigger(**options: Any) -> object:
    given: dict[str, Any] = {"destination": "orders", "history": None, "name": "t", **options}
    if "on_rollback" in options:
        given["transacted"] = True
    return trigger(given.pop("destination"), **given)(service)


def make_foreach_batch(**options: Any) -> object:
    usual = {"destination": "orders", "uuid": "id", "history": "redis://localhost", "name": "t"}
    given: dict[str, Any] = {**usual, **options}
    return foreach_batch(given.pop("destination"), **given)(batch_function)


def make_atomic_sink(**options: Any) -> object:
    usual = {
        "destination": "o",
        "uuid": "id",
        "history": "sqlite:///f.db",
        "name": "t",
        "write": batch_function,
    }
    given: dict[str, Any] = {**usual, **options}
    return atomic_sink(given.pop("destination"), **given)


def make_producer(**options: Any) -> object:
    given: dict[str, Any] = {"provider": MemoryProvider(), **options}
    return Producer(given.pop("provider"), **given)


def a_trigger() -> Trigger[..., None]:
    return trigger("orders", name="t", history=MemoryHistory())(service)


def make_consumer(**options: Any) -> object:
    given: dict[str, Any] = {"triggers": [a_trigger()], "provider": MemoryProvider(), **options}
    return Consumer(given.pop("triggers"), given.pop("provider"), **given)


def make_async_consumer(**options: Any) -> object:
    given: dict[str, Any] = {"triggers": [a_trigger()], "provider": MemoryProvider(), **options}
    return AsyncConsumer(given.pop("triggers"), given.pop("provider"), **given)


def run_consumer(**options: Any) -> None:
    Consumer([a_trigger()], MemoryProvider()).run(**options)


def run_async_consumer(**options: Any) -> None:
    drive(AsyncConsumer([a_trigger()], MemoryProvider()).run(**options))


def make_route(**options: Any) -> object:
    given: dict[str, Any] = {"name": "r", "filter": "region = 'eu'", **options}
    return a_trigger().route(given.pop("name"), **given)(service)


def make_row_service(**options: Any) -> object:
    book = trigger("orders", name="t", history="redis://localhost")(service)
    given: dict[str, Any] = {"uuid": "id", **options}
    return book.foreach_batch(**given)


#: Each function that users call, its table, and a call of it with one option.
CALLED: Mapping[str, Any] = {
    "trigger": (trigger, TRIGGER, make_trigger),
    "Retry": (Retry, RETRY, Retry),
    "foreach_batch": (foreach_batch, FOREACH_BATCH, make_foreach_batch),
    "atomic_sink": (atomic_sink, ATOMIC_SINK, make_atomic_sink),
    "Producer": (Producer, PRODUCER, make_producer),
    "Consumer": (Consumer, CONSUMER, make_consumer),
    "AsyncConsumer": (AsyncConsumer, CONSUMER, make_async_consumer),
    "Consumer.run": (Consumer.run, RUN, run_consumer),
    "AsyncConsumer.run": (AsyncConsumer.run, RUN, run_async_consumer),
    "Trigger.foreach_batch": (a_trigger().foreach_batch, ROWS, make_row_service),
    "Trigger.route": (a_trigger().route, ROUTE, make_route),
}


def cases() -> Iterator[Any]:
    for called, (_, table, make) in CALLED.items():
        for option, values in table.items():
            for number, value in enumerate(values):
                yield pytest.param(make, option, value, id=f"{called}-{option}-{number}")


@pytest.mark.parametrize("called", CALLED)
def test_each_option_has_values_that_it_refuses(called: str) -> None:
    function, table, _ = CALLED[called]

    options = [name for name in inspect.signature(function).parameters if name != "self"]

    assert sorted(options) == sorted(table)
    assert all(table.values())


@pytest.mark.parametrize(("make", "option", "value"), list(cases()))
def test_what_an_option_cannot_be_is_refused_by_its_name_with_a_remedy_and_the_line(
    make: Callable[..., object], option: str, value: Any
) -> None:
    with pytest.raises(ConfigurationError) as caught:
        make(**{option: value})

    told = caught.value
    assert option in told.setting or told.setting.startswith("route")
    assert told.problem
    assert told.remedy
    assert str(told).startswith(f"{told.setting}: {told.problem}; {told.remedy}")
    assert told.where is not None
    assert told.where.startswith("tests/unit/triggers/declaration/test_options.py, line ")


@pytest.mark.parametrize(
    ("called", "wrong", "remedy"),
    [
        ("@trigger", "retries", "retry"),
        ("@trigger", "max_deliveries", "max_delivery_count"),
        ("@trigger", "on_error", "suspend_on_error"),
        ("@trigger", "xyz", ", ".join(sorted(TriggerOptions.__annotations__))),
        ("foreach_batch", "concurrency", ""),
        ("atomic_sink", "concurrency", ""),
    ],
)
def test_an_unknown_option_is_refused_with_the_nearest_that_there_are(
    called: str, wrong: str, remedy: str
) -> None:
    _, _, make = CALLED[called.removeprefix("@")]

    with pytest.raises(ConfigurationError, match=rf"^{wrong}: {called} has no such option") as caught:
        make(**{wrong: 5})

    assert re.search(rf"\b{remedy}", caught.value.remedy)
    assert str(caught.value.where).startswith("tests/unit/triggers/declaration/test_options.py, line ")


@pytest.mark.parametrize("option", ["metrics", "provider"])
def test_an_option_of_the_consumer_is_refused_with_the_way_to_set_it(option: str) -> None:
    options: dict[str, Any] = {option: "127.0.0.1:9464"}

    with pytest.raises(ConfigurationError) as caught:
        trigger("orders", **options)

    assert caught.value.setting == option
    assert "Consumer(" in caught.value.remedy


@pytest.mark.parametrize("option", ["concurrency", "prefetch", "batch"])
def test_as_many_as_a_broker_can_count_are_taken_at_once(option: str) -> None:
    def take(bodies: list[bytes]) -> None: ...

    def make(number: int) -> None:
        options: dict[str, Any] = {"batch": 2, option: number}
        trigger("orders", name="t", **options)(take)

    make(65_535)
    with pytest.raises(ConfigurationError) as caught:
        make(65_536)

    assert caught.value.setting == option


def test_a_history_that_cannot_be_opened_is_blamed_on_the_line_that_names_it() -> None:
    line = inspect.currentframe().f_lineno + 1  # type: ignore[union-attr]
    book = trigger("orders", name="t", history="redis://127.0.0.1:1/0?claim_idel=1")(print)

    for use in (lambda: book.handle(Message(body="")), lambda: Consumer([book], "memory://").run()):
        with pytest.raises(ConfigurationError, match="unknown option 'claim_idel'") as refused:
            use()
        assert refused.value.where == f"tests/unit/triggers/declaration/test_options.py, line {line}"


@pytest.mark.parametrize("called", ["trigger", "foreach_batch", "atomic_sink"])
def test_help_lists_every_option_with_its_meaning(called: str) -> None:
    function, table, _ = CALLED[called]
    arguments = inspect.cleandoc(function.__doc__ or "").partition("Raises:")[0]
    assert sorted(re.findall(r"^ {4}(\w+): ", arguments, re.MULTILINE)) == sorted(table)


def test_every_setting_of_a_trigger_is_an_option() -> None:
    """``more_destinations`` and ``policy`` are not options themselves: several options set each of them."""
    settings = {one.name for one in (*fields(Settings), *fields(Policy))}
    settings -= {"destination", "more_destinations", "policy"}

    assert settings == set(TRIGGER_DEFAULTS) - {"on_rollback"}
    assert set(TRIGGER_DEFAULTS) | {"history", "resolver"} == set(TriggerOptions.__annotations__)


def test_an_option_has_the_same_type_at_every_door_but_for_what_a_door_reads_differently() -> None:
    of_a_trigger = get_type_hints(TriggerOptions)
    # Spark compares columns, resolves many rows in one call, and its workers open everything by a URL.
    read_differently = {"fingerprint", "resolver", "retry", "keep_result", "parking"}

    doors = (TaskOptions, HandlerOptions, HostOptions, GuardOptions, BatchOptions, SinkOptions)
    for door in doors:
        for name, type_ in get_type_hints(door).items():
            if name in of_a_trigger and name not in read_differently:
                assert type_ == of_a_trigger[name], (door, name)


@pytest.mark.parametrize("option", GuardOptions.__annotations__)
def test_a_guard_takes_each_option_of_its_kind(option: str) -> None:
    value = TRIGGER_DEFAULTS.get(option)

    protect("charge", history="memory://", **cast("Any", {option: value}))


@pytest.mark.parametrize("call", ["handle", "handle_batch", "ahandle", "ahandle_batch"])
@pytest.mark.parametrize("given", [{"uuid": "u-1"}, None, "body", 5, [{"uuid": "u-1"}]], ids=repr)
async def test_what_is_no_message_is_refused_by_handle(call: str, given: Any) -> None:
    asked = getattr(a_trigger(), call)
    alone = Message(body="x", uuid="u-1") if call.endswith("batch") else given

    for wrong in (given, alone):
        with pytest.raises(ConfigurationError) as refused:
            await settled(asked(wrong))
        assert refused.value.setting == "message"
        assert refused.value.remedy.startswith("write [" if wrong is alone is not given else "write Message(")


BROKEN = """from datetime import timedelta

from triggers import trigger


@trigger(
    "orders",
    name="book",
    lease=30,
)
def book(body: bytes) -> None: ...
"""


def test_the_error_names_the_line_of_the_decorator(tmp_path: Path) -> None:
    (tmp_path / "wrong_shop.py").write_text(BROKEN)
    words = ["run", "wrong_shop", "--provider", "redis://localhost", "--history", "redis://localhost"]

    ended = subprocess.run(
        [sys.executable, "-m", "triggers.cli", *words],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT), "COLUMNS": "400"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert ended.returncode == 2
    assert "lease: must be a timedelta, not 30; use one" in ended.stderr
    assert "(wrong_shop.py, line 6)" in ended.stderr
    assert "settings.py" not in ended.stderr
