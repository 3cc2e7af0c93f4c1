"""The place of an error in the user's code."""

import importlib
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

from history.store.parking import Parked
from tests.unit.helpers.in_memory import made, message, parked_of
from tests.unit.triggers.service.hostile_exceptions import hostile_errors, is_storable
from triggers.detection.table import Status
from triggers.service.places import LONGEST_PLACE, place_of

#: A package of a user, and a library that calls it back.
ORDERS = """\
import json
import bought

def direct(): raise ValueError("order 1")

def read(): json.loads("{")

def through(): bought.call(direct)

def inside(): bought.fail()

def translated():
    try: bought.fail()
    except KeyError as error: raise ValueError("order 2") from error

def handling():
    try: bought.fail()
    except KeyError: direct()

def generated(): exec("def made(): raise ValueError('x')\\nmade()")

class Shop:
    def sell(self): raise ValueError("sold out")
"""
BOUGHT = """\
import json

def call(function): function()

def fail(): {}["secret 4711"]

def load(): json.loads("{")
"""


@pytest.fixture
def orders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The module ``plaza.orders`` of a user; it imports ``bought`` from site-packages."""
    site = tmp_path / "lib" / "site-packages"
    for folder, files in (
        (site, {"bought.py": BOUGHT, "installed/__init__.py": "", "installed/orders.py": ORDERS}),
        (tmp_path, {"plaza/__init__.py": "def here(): raise OSError\n", "plaza/orders.py": ORDERS}),
    ):
        for name, text in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)
        monkeypatch.setattr(sys, "path", [str(folder), *sys.path])
    yield importlib.import_module("plaza.orders")
    for name in ("plaza", "plaza.orders", "bought", "installed", "installed.orders"):
        sys.modules.pop(name, None)


def raised(function: Callable[[], object]) -> BaseException:
    """Return what a function raises, as the caller sees it: without the frame of this test."""
    try:
        function()
    except BaseException as error:  # noqa: BLE001  (any error has a place)
        trace = vars(BaseException)["__traceback__"].__get__(error)
        found: BaseException = vars(BaseException)["with_traceback"](error, trace.tb_next)
        return found
    raise AssertionError("it raised nothing")


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("direct", "plaza/orders.py:4 in direct"),
        ("read", "plaza/orders.py:6 in read"),
        ("through", "plaza/orders.py:4 in direct"),
        ("inside", "plaza/orders.py:10 in inside"),
        ("translated", "plaza/orders.py:14 in translated"),
        ("handling", "plaza/orders.py:4 in direct"),
        ("generated", "plaza/orders.py:20 in generated"),
    ],
)
def test_the_place_is_the_innermost_frame_of_the_users_code(
    orders: ModuleType, name: str, place: str
) -> None:
    assert place_of(raised(getattr(orders, name))) == place


def test_methods_and_packages_have_a_place(orders: ModuleType) -> None:
    assert place_of(raised(orders.Shop().sell)) == "plaza/orders.py:23 in Shop.sell"
    assert place_of(raised(sys.modules["plaza"].here)) == "plaza/__init__.py:1 in here"


def test_if_an_error_has_no_own_frame_its_cause_gives_the_place(orders: ModuleType) -> None:
    cause = raised(orders.direct)
    caused, met = ValueError("outer"), ValueError("outer")
    caused.__cause__, met.__context__ = cause, cause
    hidden = ValueError("outer")
    hidden.__context__, hidden.__suppress_context__ = cause, True
    cause.__cause__ = caused  # a circle

    assert place_of(caused) == place_of(met) == "plaza/orders.py:4 in direct"
    assert place_of(hidden) is None


def without_caller(error: BaseException) -> BaseException:
    """Return an exception without its outermost frame."""
    trace = error.__traceback__
    assert trace is not None
    assert trace.tb_next is not None
    return error.with_traceback(trace.tb_next)


def test_without_an_own_frame_there_is_no_place() -> None:
    in_library = without_caller(raised(lambda: json.loads("{")))
    in_generated_code = without_caller(raised(lambda: eval("1 / 0")))  # noqa: S307  (code without a file)

    assert place_of(in_library) is None
    assert place_of(in_generated_code) is None
    assert place_of(ValueError("never raised")) is None


def test_a_service_that_is_installed_as_a_package_has_a_place(orders: ModuleType) -> None:
    installed = importlib.import_module("installed.orders")

    assert place_of(raised(installed.inside)) == "installed/orders.py:10 in inside"
    assert place_of(raised(installed.through)) == "installed/orders.py:4 in direct"
    assert place_of(raised(orders.bought.load)) == "bought.py:7 in load"


def test_a_place_has_no_values_and_no_source_text(orders: ModuleType) -> None:
    place = place_of(raised(orders.inside)) or ""

    assert "4711" not in place
    assert "bought.fail()" not in place


@pytest.mark.parametrize(
    "error", [pytest.param(one, id=type.__repr__(type(one))) for one in hostile_errors()]
)
def test_any_exception_has_a_place_that_can_be_stored(error: BaseException) -> None:
    def fail() -> None:
        raise error

    assert is_storable(place_of(raised(fail)), LONGEST_PLACE)


def test_a_parked_message_has_the_place_and_not_the_frames_of_doubtless(orders: ModuleType) -> None:
    def book(order: dict[str, str]) -> None:
        orders.inside()

    def listen(order: dict[str, str]) -> None:
        json.loads(order["id"])

    parked: list[Parked] = []
    for service in (book, listen):
        one = made(service)
        assert one.handle(message("u1")).status is Status.NEW
        parked += parked_of(one)

    assert parked[0].error_place == "plaza/orders.py:10 in inside"
    assert (parked[1].error_place or "").endswith(
        f":{listen.__code__.co_firstlineno + 1} in {listen.__qualname__}"
    )
