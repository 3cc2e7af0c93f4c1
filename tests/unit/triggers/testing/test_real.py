"""Real kills show whether a simulated death was true: handlers may hide a loss there, or cause one."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from history.errors import ConfigurationError
from tests.unit.triggers.testing.planted import LEDGER, ORDER, book, looks, made
from triggers.testing import exactly_once
from triggers.testing.simulator.exactly_once import ONLY_SIMULATED
from triggers.testing.simulator.real import RealRunError

pytestmark = pytest.mark.slow

#: Common options: scripts with one fault.
OPTIONS: dict[str, Any] = {"crashes": 1}


class Shop:
    """Bookings and a marker in files: they stay when a process dies."""

    def __init__(self, folder: Path) -> None:
        self.bookings, self.marker = folder / "bookings", folder / "marker"
        self.reset()

    def reset(self) -> None:
        self.bookings.write_text("", encoding="utf-8")
        self.marker.unlink(missing_ok=True)

    def book(self, order: dict[str, Any]) -> None:
        booked = [*self.booked(), order["id"]]
        self.bookings.write_text("\n".join(booked), encoding="utf-8")

    def booked(self) -> list[str]:
        return self.bookings.read_text(encoding="utf-8").split()


def a_marker_that_a_handler_takes_away(shop: Shop) -> Callable[[dict[str, Any]], None]:
    def service(order: dict[str, Any]) -> None:
        if shop.marker.exists():
            return
        try:
            shop.marker.touch()
            shop.book(order)
        finally:
            shop.marker.unlink(missing_ok=True)

    return service


def a_marker_that_a_handler_sets(shop: Shop) -> Callable[[dict[str, Any]], None]:
    def service(order: dict[str, Any]) -> None:
        if shop.marker.exists():
            return
        try:
            shop.book(order)
        finally:
            shop.marker.touch()

    return service


def test_a_loss_that_a_handler_hides_from_a_simulated_death_is_found_by_a_real_one(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    careless = made(a_marker_that_a_handler_takes_away(shop), in_doubt="execute")
    given: dict[str, Any] = {"effects": shop.booked, "reset": shop.reset, **OPTIONS}

    simulated = exactly_once(careless, [ORDER], **given)
    real = exactly_once(careless, [ORDER], **given, real=True)

    assert simulated.none_lost, simulated
    assert not real.none_lost
    again = exactly_once(careless, [ORDER], **given, script=real.lost[0].replay, real=True)
    assert [str(one) for one in again.lost] == [str(real.lost[0])]


@pytest.mark.prove
def test_a_loss_that_only_a_handler_makes_in_a_simulated_death_is_not_reported(tmp_path: Path) -> None:
    shop = Shop(tmp_path)
    service = made(a_marker_that_a_handler_sets(shop), in_doubt="execute")
    given: dict[str, Any] = {"effects": shop.booked, "reset": shop.reset, **OPTIONS}

    simulated = exactly_once(service, [ORDER], **given)
    real = exactly_once(service, [ORDER], **given, real=True)

    assert not simulated.none_lost
    assert real.none_lost, real
    assert ONLY_SIMULATED in real.warnings


async def pays(order: dict[str, Any]) -> None:
    LEDGER.record(order["id"])


@pytest.mark.parametrize(
    "service", [book, pytest.param(pays, marks=pytest.mark.prove)], ids=["blocking", "asyncio"]
)
def test_what_is_found_comes_out_the_same_for_real(service: Any) -> None:
    careless = made(service, in_doubt="execute")

    simulated = exactly_once(careless, [ORDER], effects=LEDGER, **OPTIONS)
    real = exactly_once(careless, [ORDER], effects=LEDGER, **OPTIONS, real=True)

    assert [str(one) for one in real.doubled] == [str(one) for one in simulated.doubled]
    assert real.doubled


@pytest.mark.prove
def test_a_correct_service_passes_for_real() -> None:
    report = exactly_once(made(book, resolver=looks), [ORDER], effects=LEDGER, **OPTIONS, real=True)

    report.check()


def test_effects_in_the_memory_of_the_process_are_refused() -> None:
    booked: list[str] = []

    def service(order: dict[str, Any]) -> None:
        booked.append(order["id"])

    with pytest.raises(ConfigurationError, match="memory of the service's process"):
        exactly_once(made(service), [ORDER], effects=booked, reset=booked.clear, **OPTIONS, real=True)


def test_a_service_that_ends_its_own_process_is_told_of() -> None:
    here = os.getpid()

    def service(order: dict[str, Any]) -> None:
        LEDGER.record(order["id"])
        if os.getpid() != here:
            os._exit(0)

    with pytest.raises(RealRunError, match="ended without a word"):
        exactly_once(made(service), [ORDER], effects=LEDGER, **OPTIONS, real=True)
