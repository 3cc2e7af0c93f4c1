"""Kill a consumer at every step of the pipeline, over every store; let another finish; count the effects."""

import pytest

from tests.crash.conftest import Matrix
from tests.crash.helpers.deaths import DEATHS, SKIPPED, Death, Path
from tests.fixtures.proof import Proved
from triggers.pipeline.pipeline import Step

pytestmark = pytest.mark.crash

#: The histories, with Redis Streams; and SQL-JMS on two databases, with a history beside it.
STORES = ["redis", "sqlite", "postgresql", "sqljms-sqlite", "sqljms-postgresql"]

every_death = pytest.mark.parametrize("death", DEATHS, ids=lambda death: death.name)


def marks_of(store: str) -> list[pytest.MarkDecorator]:
    """Run all tests of a store in one worker: they check the result of one run."""
    group = pytest.mark.xdist_group(f"matrix-{store}")
    return [group] if store == "redis" else [group, pytest.mark.prove]


every_store = pytest.mark.parametrize(
    "store", [pytest.param(store, marks=marks_of(store)) for store in STORES]
)


def test_a_process_dies_at_every_step_that_its_message_reaches() -> None:
    died_at = {path: {death.point for death in DEATHS if death.path is path} for path in Path}

    assert died_at[Path.FAILS] >= set(Step)
    assert all(died_at[path] >= set(Step) - SKIPPED[path] for path in Path)


@every_store
@every_death
def test_the_message_ends_as_the_table_of_the_pipeline_says_and_nothing_happens_twice(
    matrix: Matrix, store: str, death: Death, proved: Proved
) -> None:
    proved(processes_killed=1)
    matrix(store)[death].check(death)
