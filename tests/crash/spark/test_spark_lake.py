"""Spark reads Apache Kafka by its own source into a lake; drivers are killed, and each message is there once.

With ``DOUBTLESS_FULL=1`` there are 100,000 messages and twenty deaths.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from confluent_kafka import Producer as RawProducer

from tests.crash.spark.spark_lake import SILENCE
from tests.fixtures.histories import with_store
from tests.fixtures.proof import Proved
from tests.fixtures.scale import sized
from tests.fixtures.servers.apache_kafka_server import ApacheKafkaServer
from tests.fixtures.servers.lakes import LAKES, Lake
from tests.fixtures.servers.spark import SPARK_PROCESSES, need_spark
from tests.fixtures.waiting import patience
from triggers.spark.batch.batch import BatchStep

pytestmark = [
    SPARK_PROCESSES,
    pytest.mark.prove,
    pytest.mark.crash,
    pytest.mark.timeout(sized(900, full=7200)),
]

#: One message in ten is sent twice.
MESSAGES, DEATHS = sized(3_000, full=100_000), sized(3, full=20)

#: Two drivers die before and after the commit of the lake, the others at random moments.
MOMENTS = [BatchStep.ENTERED.name, BatchStep.RUN.name, *map(str, range(DEATHS - 2))]


#: Spark 4.1 fails when its source of Kafka has repeated a batch, after it has noted the batch.
SPARK_55271 = b"KafkaMicroBatchStream$.metrics"


@pytest.fixture(params=LAKES)
def lake(request: pytest.FixtureRequest) -> Lake:
    need_spark()
    lake = LAKES[request.param]
    lake.need()
    return lake


@pytest.fixture
def kafka(lake: Lake, tmp_path: Path) -> Iterator[ApacheKafkaServer]:
    with ApacheKafkaServer(tmp_path / "kafka") as server:
        server.create("orders", 2)
        yield server


def fill(server: ApacheKafkaServer) -> None:
    producer = RawProducer({"bootstrap.servers": server.address, "log_level": 0, "linger.ms": 50})
    for number in range(MESSAGES):
        order = json.dumps({"customer": f"c{number % 7}", "amount": number / 2})
        for copy in range(1 if number % 10 else 2):
            # A copy may be in another partition.
            place = (number + copy) % 2
            producer.produce("orders", order, headers=[("uuid", b"u%d" % number)], partition=place)
        producer.poll(0)
    assert producer.flush(patience(60.0)) == 0


def run_driver(lake: Lake, place: Path, urls: Sequence[str], how: str) -> int:
    """Run a driver until it ends or is killed; return its exit code."""
    words = [str(place), *urls, lake.recipe, how]
    with (place / "drivers.log").open("ab") as log:
        driver = subprocess.Popen(
            [sys.executable, "-m", "tests.crash.spark.spark_lake", *words],
            stdout=log,
            stderr=log,
            start_new_session=True,
            env=lake.environment,
        )
    try:
        return driver.wait(patience(sized(300, full=1800)))
    finally:
        if driver.poll() is None:
            os.killpg(driver.pid, signal.SIGKILL)
            driver.wait()


def run_drivers(lake: Lake, place: Path, urls: Sequence[str], how: str) -> int:
    """Run a driver, and another one if Spark itself failed; return the code of the last one."""
    log = place / "drivers.log"
    known = log.stat().st_size if log.exists() else 0
    code = run_driver(lake, place, urls, how)
    if code == 1 and SPARK_55271 in log.read_bytes()[known:]:
        return run_driver(lake, place, urls, how)
    return code


def parked(history: str) -> int:
    return with_store(history, lambda store: store.parking.count(trigger="load-orders"))


def test_each_message_of_kafka_is_in_the_lake_once_whenever_drivers_die(
    lake: Lake, kafka: ApacheKafkaServer, tmp_path: Path, redis_url: str, proved: Proved
) -> None:
    fill(kafka)
    urls = redis_url, kafka.address

    codes = [run_drivers(lake, tmp_path, urls, moment) for moment in (*MOMENTS, "-")]

    assert codes == [-signal.SIGKILL] * DEATHS + [0]
    assert lake.read(tmp_path) == (MESSAGES, MESSAGES)
    assert parked(redis_url) == 0
    proved(messages=MESSAGES, processes_killed=DEATHS)


def test_the_lake_is_asked_for_each_batch_whose_reply_was_lost(
    lake: Lake, kafka: ApacheKafkaServer, tmp_path: Path, redis_url: str
) -> None:
    """Its answer must be as new as the commit that another session of the driver made."""
    fill(kafka)

    assert run_driver(lake, tmp_path, (redis_url, kafka.address), SILENCE) == 0
    assert lake.read(tmp_path) == (MESSAGES, MESSAGES)
    assert parked(redis_url) == 0
