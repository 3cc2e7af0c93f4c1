"""Examples of the docs keep their promises while copies are in flight and their two processes are killed."""

import pytest

from tests.acceptance.command_line import CommandLine
from tests.acceptance.docs.in_flight import Site

pytestmark = pytest.mark.crash


@pytest.fixture
def site(doubtless: CommandLine, redis_url: str) -> Site:
    return Site(doubtless, redis_url)


@pytest.mark.prove
def test_the_shop_sells_once_while_copies_come(site: Site) -> None:
    site.sell_while_copies_come()


@pytest.mark.prove
def test_the_shop_sells_once_while_workers_are_killed(site: Site) -> None:
    site.sell_while_workers_are_killed()


@pytest.mark.prove
@pytest.mark.parametrize("kills", [0, 2])
def test_the_demos_orders_are_booked_once_and_only_a_kill_leaves_doubt(site: Site, kills: int) -> None:
    site.book_the_demos_orders(kills=kills)
