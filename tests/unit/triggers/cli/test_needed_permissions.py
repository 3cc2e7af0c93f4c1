"""Which permissions of its history the doctor looks for, by the settings of a trigger."""

from typing import Any

import pytest

from history.store.inspection import Capability
from tests.unit.helpers.in_memory import Effects, made
from triggers.cli.checks.stores import capabilities_of


@pytest.mark.parametrize(
    ("options", "keeps"),
    [({}, False), ({"keep_result": True}, True), ({"transacted": True}, True)],
    ids=["plain", "keep_result", "transacted"],
)
def test_a_trigger_that_keeps_results_or_failures_needs_the_permission(
    options: dict[str, Any], *, keeps: bool
) -> None:
    settings = made(Effects(), **options).settings

    assert (Capability.RESULTS in capabilities_of(settings)) is keeps
