"""Drivers that hang in the function, and wake up when another driver has completed their batch."""

import os
import signal
import subprocess
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from sqlalchemy import Engine, create_engine, text

from tests.crash.spark.spark_sleeper import Place
from tests.fixtures.histories import with_store
from tests.fixtures.servers.lakes import DELTA
from tests.fixtures.servers.spark import POSTGRES_JAR, SPARK_PROCESSES, need_spark
from tests.fixtures.waiting import eventually, patience

pytestmark = [SPARK_PROCESSES, pytest.mark.prove, pytest.mark.crash, pytest.mark.timeout(400)]

ROWS = 20_000

in_either_way = pytest.mark.parametrize(
    "dies", [True, False], ids=["is killed in its write", "ends its write"]
)


def fill(spark: SparkSession, place: Place) -> None:
    need_spark()
    columns = "concat('u', id) AS uuid", "'a customer' AS customer", "1.5D AS amount"
    spark.range(ROWS).selectExpr(*columns).coalesce(1).write.parquet(place.inbox)


def killed(driver: "subprocess.Popen[bytes]") -> None:
    if driver.poll() is None:
        os.killpg(driver.pid, signal.SIGKILL)
    driver.wait()


def signal_workers(place: Place, number: signal.Signals) -> None:
    """Send a signal to the Python workers of a driver that was stopped with them."""
    with suppress(ProcessLookupError):
        os.killpg(int((place.folder / "stopped").read_text()), number)


def stopped_driver(place: Place, recipe: str) -> "subprocess.Popen[bytes]":
    """Return a driver that has stopped itself in the middle of its batch."""
    late = place.start(recipe, "stop")
    try:
        eventually((place.folder / "stopped").exists, 180.0)
    except BaseException:
        killed(late)
        raise
    return late


def go(place: Place, recipe: str) -> None:
    """Run another driver to its end."""
    driver = place.start(recipe, "go")
    try:
        assert driver.wait(patience(180.0)) == 0
    finally:
        killed(driver)


@pytest.mark.parametrize("recipe", ["load", "load_folder"])
@in_either_way
def test_a_driver_that_wakes_up_late_changes_no_folder(
    spark: SparkSession, tmp_path: Path, redis_url: str, recipe: str, *, dies: bool
) -> None:
    place = Place(tmp_path, redis_url)
    fill(spark, place)
    late = stopped_driver(place, recipe)
    try:
        go(place, recipe)
        assert _in_folders(spark, place) == (ROWS, ROWS)

        os.killpg(late.pid, signal.SIGCONT)
        if dies:
            eventually(lambda: late.poll() is not None or _has_begun(tmp_path), 60.0)
        else:
            assert late.wait(patience(180.0)) != 0  # the ledger refuses its completion
    finally:
        killed(late)
    go(place, recipe)

    assert _in_folders(spark, place) == (ROWS, ROWS)


@pytest.mark.timeout(900)  # it reads its log by jobs of Spark
def test_delta_skips_what_a_late_driver_writes(spark: SparkSession, tmp_path: Path, redis_url: str) -> None:
    DELTA.need()
    place = Place(tmp_path, redis_url)
    fill(spark, place)
    late = stopped_driver(place, DELTA.recipe)
    try:
        go(place, DELTA.recipe)
        assert DELTA.read(tmp_path) == (ROWS, ROWS)

        os.killpg(late.pid, signal.SIGCONT)
        assert late.wait(patience(180.0)) != 0  # the ledger refuses its completion
    finally:
        killed(late)
    go(place, DELTA.recipe)

    assert DELTA.read(tmp_path) == (ROWS, ROWS)


def test_the_key_of_a_table_of_batches_keeps_a_late_driver_out(
    spark: SparkSession, tmp_path: Path, redis_url: str, postgres_url: str
) -> None:
    place, shop = Place(tmp_path, redis_url, postgres_url), opened(postgres_url)
    fill(spark, place)
    late = stopped_driver(place, "load_shop")
    try:
        go(place, "load_shop")
        assert booked(shop) == (ROWS, ROWS)

        os.killpg(late.pid, signal.SIGCONT)
        assert late.wait(patience(180.0)) != 0
    finally:
        killed(late)
    go(place, "load_shop")

    assert booked(shop) == (ROWS, ROWS)
    shop.dispose()


@in_either_way
def test_an_atomic_sink_that_stops_in_its_transaction_writes_each_row_once(
    spark: SparkSession, tmp_path: Path, redis_url: str, postgres_url: str, *, dies: bool
) -> None:
    place, shop = Place(tmp_path, redis_url, postgres_url), opened(postgres_url)
    fill(spark, place)
    late = stopped_driver(place, "bookings")
    heir = place.start("bookings", "go")
    try:
        eventually(lambda: waits_for_a_lock(shop), 180.0)
        if dies:
            signal_workers(place, signal.SIGKILL)
            killed(late)
        else:
            signal_workers(place, signal.SIGCONT)
            os.killpg(late.pid, signal.SIGCONT)
            late.wait(patience(180.0))
        assert heir.wait(patience(180.0)) == 0
    finally:
        signal_workers(place, signal.SIGKILL)
        killed(late)
        killed(heir)
    go(place, "bookings")

    assert booked(shop) == (ROWS, ROWS)
    shop.dispose()


def test_rows_that_a_late_driver_appends_over_jdbc_are_in_doubt_and_never_appended_twice(
    spark: SparkSession, tmp_path: Path, redis_url: str, postgres_url: str
) -> None:
    if not POSTGRES_JAR.exists():
        pytest.skip("libpostgresql-jdbc-java is not installed")
    place, shop = Place(tmp_path, redis_url, postgres_url), opened(postgres_url)
    fill(spark, place)
    late = stopped_driver(place, "load_bookings")
    try:
        go(place, "load_bookings")
        assert booked(shop) == (0, 0)

        os.killpg(late.pid, signal.SIGCONT)
        assert late.wait(patience(180.0)) != 0
    finally:
        killed(late)
    go(place, "load_bookings")

    assert booked(shop) == (ROWS, ROWS)
    parked = with_store(redis_url, lambda store: store.parking.count(trigger="load-orders"))
    assert parked == ROWS
    shop.dispose()


def opened(url: str) -> Engine:
    """Return a shop with empty tables."""
    engine = create_engine(url.replace("://", "+psycopg://"))
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE bookings (uuid TEXT, customer TEXT, amount DOUBLE PRECISION)"))
        connection.execute(
            text("CREATE TABLE loaded (lineage TEXT, batch BIGINT, PRIMARY KEY (lineage, batch))")
        )
    return engine


def booked(shop: Engine) -> tuple[int, int]:
    """Return how many rows the shop has, and how many of them differ."""
    with shop.connect() as connection:
        rows, different = connection.execute(
            text("SELECT COUNT(*), COUNT(DISTINCT uuid) FROM bookings")
        ).one()
    return int(rows), int(different)


def waits_for_a_lock(shop: Engine) -> bool:
    """Whether a connection to the shop waits for another one's transaction."""
    asked = text(
        "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock' "
        "AND application_name = current_setting('application_name')"
    )
    with shop.connect() as connection:
        return connection.execute(asked).first() is not None


def _has_begun(folder: Path) -> bool:
    return any((folder / "orders").glob("lineage=*/batch_id=*/attempt=1"))


def _in_folders(spark: SparkSession, place: Place) -> tuple[int, int]:
    """Return how many rows a reader sees, and how many of them differ."""
    found = Counter(row.uuid for row in spark.read.parquet(*place.newest_folders()).collect())
    return found.total(), len(found)
