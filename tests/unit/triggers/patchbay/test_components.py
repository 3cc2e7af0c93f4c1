"""Components: what they may be, what they are given, and what is refused."""

import asyncio
import inspect
import time
from datetime import timedelta
from pathlib import Path
from typing import cast

import pytest

from history import HistoryStore
from tests.fixtures.beside import EntriesOnly
from triggers import ConfigurationError, Message, Retry, trigger
from triggers.patchbay import MessageContext, PatchBay, current_context, read_patchbay
from triggers.patchbay.components import bound_to, load_component
from triggers.patchbay.outputs import Outputs
from triggers.patchbay.wiring.model import PatchBayFile

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
        assert bay.components["shop"].context is bay.contexts["shop"]
        assert GOT == []
        bay.run(until_idle=0.2)

    assert GOT == ["started"]


def wiring_of_source(folder: Path, source: str) -> PatchBayFile:
    file = folder / "bay.toml"
    file.write_text(
        '[providers.main]\nurl = "memory://"\n[[source]]\nname = "shop"\n'
        f'component = "{here(source)}"\n[[source.output]]\nto = ["orders"]\n'
    )
    return read_patchbay(file)


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
