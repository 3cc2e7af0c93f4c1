"""Components of a Patch Bay: valid kinds, their arguments, and refused ones."""

import asyncio
import inspect
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import pytest

from history import HistoryStore
from tests.fixtures.beside import EntriesOnly
from triggers import ConfigurationError, Message, Retry, trigger
from triggers.patchbay import MessageContext, PatchBay, current_context, read_patchbay
from triggers.patchbay.components import bound_to, load_component
from triggers.patchbay.outputs import Outputs
from triggers.patchbay.wiring.model import PatchBayFile
from triggers.providers.memory import MemoryProvider

GOT: list[object] = []


def plain(port: str, message: Message, context: MessageContext) -> None:
    GOT.append((port, message.body, context.name, current_context().name))


class Method:
    def receive_message(self, port: str, message: dict[str, int]) -> None:
        GOT.append((port, message))


class Source:
    def __init__(self) -> None:
        self.context: MessageContext | None = None

    def set_message_context(self, context: MessageContext) -> None:
        self.context = context

    def start_message_source(self) -> None:
        GOT.append("started")


async def until_stopped(context: MessageContext) -> None:
    GOT.append("began")
    await asyncio.to_thread(context.pause, timedelta(hours=1))
    GOT.append("ended")


class OnALoop:
    """A source with coroutine functions as methods; it ends only after its stop method was called."""

    def __init__(self) -> None:
        self.told = asyncio.Event()

    async def start_message_source(self) -> None:
        GOT.append("began")
        await self.told.wait()
        GOT.append("ended")

    async def stop_message_source(self) -> None:
        GOT.append("told")
        self.told.set()


class PlainStop(OnALoop):
    def stop_message_source(self) -> None:  # type: ignore[override]
        GOT.append("told")
        self.told.set()


class AsyncStop(Source):
    async def stop_message_source(self) -> None:
        GOT.append("told")


class CannotStop(Source):
    def stop_message_source(self) -> None:
        raise KeyError("stop")


class Called:
    """A callable object: its ``__call__`` is a coroutine function."""

    async def __call__(self, context: MessageContext) -> None:
        GOT.append(context.name)


class CalledSink:
    async def __call__(self, message: Message) -> None:
        GOT.append(message.body)


called, called_sink = Called(), CalledSink()


class AsyncContext(Source):
    async def set_message_context(self, context: MessageContext) -> None:  # type: ignore[override]
        raise NotImplementedError


class NoContext(Source):
    def set_message_context(self) -> None:  # type: ignore[override]
        raise NotImplementedError


class StartTakesMore:
    def start_message_source(self, what: str) -> None:
        raise NotImplementedError


class StopTakesMore(Source):
    def stop_message_source(self, what: str) -> None:
        raise NotImplementedError


def takes_nothing() -> None:
    raise NotImplementedError


def generates(context: MessageContext) -> Iterator[None]:
    yield


class Needy:
    def __init__(self, what: str) -> None:
        self.what = what


@trigger("orders", name="tried-again", history=None, retry=Retry(max_attempts=1))
def tried_again(message: Message) -> None:
    raise NotImplementedError


NUMBER = 7


def no_outputs() -> Outputs:
    raise NotImplementedError


def context() -> MessageContext:
    return MessageContext("booking", outputs=no_outputs, async_outputs=no_outputs)


def here(name: str) -> str:
    return f"{__name__}:{name}"


def wiring(component: str, *, redelivery: bool = False, **told: object) -> PatchBayFile:
    place: dict[str, object] = {"destination": "orders"}
    if redelivery:
        place["redelivery"] = {"failure_port": "F", "on_failure": "fail_fast"}
    sink = {"name": "booking", "component": component, "input": [{"from": [place]}], **told}
    sink["redelivery_port"] = [{"port": "F", "to": ["dead"]}]
    raw = {"providers": {"main": {"url": "memory://"}}, "sink": [sink]}
    return PatchBayFile.model_validate(raw)


@pytest.fixture(autouse=True)
def _clear() -> None:
    GOT.clear()


def test_port_and_context_are_filled_and_the_rest_is_left_to_the_trigger() -> None:
    service = bound_to(plain, "in", context())

    assert list(inspect.signature(service).parameters) == ["message"]
    service(message=Message(body="hello"))
    assert GOT == [("in", "hello", "booking", "booking")]


@pytest.mark.parametrize("component", ["plain", "Method"])
def test_a_function_and_a_class_receive(component: str) -> None:
    with PatchBay(wiring(here(component), history=False)) as bay:
        (one,) = bay.triggers
        outcome = one.handle(Message(body={"n": 1}, uuid="m1"))

    assert outcome.executed, outcome
    assert one.name == "booking.DEFAULT.orders"
    assert one.settings.policy.transacted
    assert len(GOT) == 1


def test_a_source_gets_its_context_before_it_is_started(tmp_path: Path) -> None:
    with PatchBay(wiring_of_source(tmp_path, "Source")) as bay:
        assert bay.components["shop-0"].context is bay.contexts["shop-0"]
        assert GOT == []
        bay.run(until_idle=0.2)

    assert GOT == ["started"]


def wiring_of_source(folder: Path, *sources: str) -> PatchBayFile:
    file = folder / "bay.toml"
    tables = [
        f'[[source]]\nname = "shop-{number}"\ncomponent = "{here(source)}"\noutput = [{{ to = ["q"] }}]\n'
        for number, source in enumerate(sources)
    ]
    file.write_text('[providers.main]\nurl = "memory://"\n' + "".join(tables))
    return read_patchbay(file)


@pytest.mark.parametrize("source", ["OnALoop", "PlainStop"])
def test_a_source_on_the_event_loop_is_told_to_end_while_it_can(tmp_path: Path, source: str) -> None:
    with PatchBay(wiring_of_source(tmp_path, source)) as bay:
        bay.run(until_idle=0.2)

    assert GOT == ["began", "told", "ended"]


def test_a_source_in_a_thread_may_stop_by_a_coroutine_function(tmp_path: Path) -> None:
    with PatchBay(wiring_of_source(tmp_path, "AsyncStop")) as bay:
        bay.run(until_idle=0.2)

    assert GOT == ["started", "told"]


@pytest.mark.parametrize("other", ["AsyncStop", "PlainStop"])
def test_a_source_that_cannot_be_told_to_end_keeps_no_other_running(tmp_path: Path, other: str) -> None:
    with (
        PatchBay(wiring_of_source(tmp_path, "CannotStop", other)) as bay,
        pytest.raises(KeyError, match="stop"),
    ):
        bay.run(until_idle=0.2)

    assert "told" in GOT


def test_the_name_of_a_file_is_not_its_wiring() -> None:
    with pytest.raises(ConfigurationError) as refused:
        PatchBay(cast("PatchBayFile", "bay.toml"))

    assert refused.value.setting == "file"


@pytest.mark.parametrize("source", ["Source", "until_stopped"])
def test_it_runs_once(tmp_path: Path, source: str) -> None:
    with PatchBay(wiring_of_source(tmp_path, source)) as bay:
        bay.run(until_idle=0.2)
        done = list(GOT)

        with pytest.raises(ConfigurationError) as refused:
            bay.run(until_idle=0.2)

    assert (refused.value.setting, GOT) == ("run", done)


def test_an_object_may_be_called_as_a_coroutine_function(tmp_path: Path) -> None:
    with PatchBay(wiring_of_source(tmp_path, "called")) as bay:
        bay.run(until_idle=0.2)
    with PatchBay(wiring(here("called_sink"), history=False)) as bay:
        (one,) = bay.triggers
        outcome = asyncio.run(one.ahandle(Message(body={"n": 1}, uuid="m1")))

    assert (GOT, outcome.error) == (["shop-0", {"n": 1}], None)


@pytest.mark.parametrize(
    ("source", "setting"),
    [
        ("AsyncContext", "component shop-0: set_message_context"),
        ("NoContext", "component shop-0: set_message_context"),
        ("StartTakesMore", "source shop-0"),
        ("StopTakesMore", "source shop-0"),
        ("takes_nothing", "source shop-0"),
        ("generates", "service generates"),
    ],
)
def test_what_is_no_source_is_refused_when_it_is_loaded(tmp_path: Path, source: str, setting: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        PatchBay(wiring_of_source(tmp_path, source))

    assert refused.value.setting == setting


@pytest.mark.parametrize(
    ("arguments", "setting"),
    [
        ({"providers": {"mian": MemoryProvider()}}, "providers"),
        ({"providers": {"main": "memory://"}}, "providers['main']"),
        ({"name": 5}, "name"),
        ({"parent": "5"}, "parent"),
        ({"metrics": 9464}, "metrics"),
        ({"history": 5}, "history"),
        ({"observe": GOT}, "observe"),
        ({"clock": 0}, "clock"),
    ],
)
def test_an_argument_is_checked_when_it_is_given(arguments: dict[str, Any], setting: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        PatchBay(wiring(here("plain"), history=False), **arguments)

    assert refused.value.setting == setting


async def test_a_source_ends_before_an_error_of_the_run_reaches_the_caller(tmp_path: Path) -> None:
    def started() -> None:
        while GOT != ["began"]:
            time.sleep(0.001)
        raise KeyError("started")

    with PatchBay(wiring_of_source(tmp_path, "until_stopped")) as bay, pytest.raises(KeyError):
        await bay.arun(until_idle=0, started=started)

    assert GOT == ["began", "ended"]


@pytest.mark.parametrize("source", ["Source", "until_stopped"])
def test_what_cannot_report_the_start_is_refused_before_a_source_begins(tmp_path: Path, source: str) -> None:
    async def in_time() -> None: ...

    with PatchBay(wiring_of_source(tmp_path, source)) as bay, pytest.raises(ConfigurationError) as refused:
        bay.run(until_idle=0, started=in_time)

    assert (refused.value.setting, GOT) == ("started", [])


def test_sources_run_beside_a_history_without_records(tmp_path: Path) -> None:
    history = cast("HistoryStore", EntriesOnly())

    with PatchBay(wiring_of_source(tmp_path, "Source"), history=history) as bay:
        bay.run(until_idle=0.2)

    assert GOT == ["started"]


def test_no_component_runs_outside_of_one() -> None:
    with pytest.raises(ConfigurationError, match="no component of a Patch Bay is running"):
        current_context()


@pytest.mark.parametrize(
    ("component", "problem"),
    [
        ("Missing", "has no 'Missing'"),
        ("Needy", "cannot be made"),
        ("NUMBER", "has no receive_message and cannot be called"),
    ],
    ids=["missing", "constructor", "number"],
)
def test_what_is_no_component_is_refused(component: str, problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        PatchBay(wiring(here(component), history=False))


def test_a_module_that_is_missing_is_named() -> None:
    with pytest.raises(ConfigurationError, match="component shop: there is no module 'nowhere'"):
        load_component("shop", "nowhere:book")


@pytest.mark.parametrize(
    ("told", "problem"),
    [
        ({"redelivery": True}, "retry of its trigger contradicts redelivery"),
        ({"concurrency": 2}, "is a trigger and has settings of its own"),
    ],
    ids=["retry", "concurrency"],
)
def test_a_trigger_whose_settings_contradict_the_file_is_refused(
    told: dict[str, object], problem: str
) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        PatchBay(wiring(here("tried_again"), **told))  # type: ignore[arg-type]


def test_the_exceptions_worth_another_try_are_named_in_the_file() -> None:
    with PatchBay(wiring(here("plain"), history=False, transient=["KeyError"])) as bay:
        transient = bay.triggers[0].settings.transient
    assert isinstance(transient, tuple)
    assert KeyError in transient
    with pytest.raises(ConfigurationError, match="'Nothing' is not an exception class"):
        PatchBay(wiring(here("plain"), history=False, transient=["Nothing"]))
