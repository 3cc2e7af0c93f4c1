"""A queue and a publication as sources of a Spark stream, stopped by a failure and started again."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from sqlalchemy import create_engine

from history.bridge import drive
from tests.fixtures.servers.spark import SPARK_EDGES
from tests.integration.helpers.available_now import run
from tests.integration.helpers.orders import orders
from triggers.providers.sqljms.admin.admin import Admin
from triggers.providers.sqljms.admin.views import SourceView
from triggers.providers.sqljms.provider import SqlJms
from triggers.providers.sqlremote.publication.publication import Publication
from triggers.spark.sources import PublicationSource, SqlJmsSource
from triggers.spark.sources.publication import PublicationLog, PublicationLogSettings

pytestmark = [SPARK_EDGES, pytest.mark.prove]


class Noted:
    """Notes the rows of each batch. The second batch fails the first time, after it was read."""

    def __init__(self, column: str) -> None:
        self.column = column
        self.batches: dict[int, list[str]] = {}
        self.parts: list[int] = []
        self.failed = False

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        """Note a batch. If it runs again, it must have the same rows."""
        seen = sorted(row[0] for row in batch.select(self.column).collect())
        assert self.batches.get(batch_id, seen) == seen
        self.batches[batch_id] = seen
        self.parts.append(batch.rdd.getNumPartitions())
        if batch_id == 1 and not self.failed:
            self.failed = True
            message = "the driver dies"
            raise RuntimeError(message)


@pytest.mark.parametrize(
    "link_databases", ["sqlite", pytest.param("postgres", marks=pytest.mark.prove)], indirect=True
)
def test_a_queue_is_read_in_batches_that_stay_the_same_and_is_empty_at_the_end(
    spark: SparkSession, link_databases: Sequence[str], tmp_path: Path
) -> None:
    url = link_databases[0]
    provider, noted = SqlJms.from_url(url), Noted("uuid")
    spark.dataSource.register(SqlJmsSource)
    told = {"url": url, "destination": "queue://orders", "subscription": "pipeline"}
    limits = {"maxRowsPerBatch": "20", "maxRowsPerPartition": "8"}
    stream = spark.readStream.format("sqljms").options(**told, **limits).load()

    drive(provider.send("queue://orders", orders(30)))
    with pytest.raises(StreamingQueryException, match="the driver dies"):
        run(stream, tmp_path, noted)
    drive(provider.send("queue://orders", orders(20, first=30)))
    run(stream, tmp_path, noted)
    run(stream, tmp_path, noted)

    names = [f"order-{number}" for number in range(50)]
    assert noted.batches == {0: sorted(names[:20]), 1: sorted(names[20:30]), 2: sorted(names[30:])}
    assert noted.parts == [3, 2, 2, 3]
    assert [place.messages for place in left(url)] == [0]
    drive(provider.close())


def left(url: str) -> Sequence[SourceView]:
    admin = Admin.from_url(url)
    places = drive(admin.queues())
    drive(admin.close())
    return places


# Only on one database: databases differ only in the log, and other tests cover that.
@pytest.mark.parametrize("link_databases", ["postgres"], indirect=True)
def test_a_publication_is_read_by_whole_transactions_and_on_where_it_stopped(
    spark: SparkSession, link_databases: Sequence[str], tmp_path: Path
) -> None:
    url = link_databases[0]
    noted = Noted("operation")
    log = PublicationLog(PublicationLogSettings(url=url, publication="orders"))
    log.begin()
    log.close()
    engine = create_engine(url.replace("postgresql://", "postgresql+psycopg://"))
    spark.dataSource.register(PublicationSource)
    told = {"url": url, "publication": "orders", "maxRowsPerBatch": "5", "maxRowsPerPartition": "2"}
    stream = spark.readStream.format("publication").options(**told).load()

    for transaction in ("abc", "def", "gh"):
        with engine.begin() as connection:
            Publication("orders").append(connection, *transaction)
    with pytest.raises(StreamingQueryException, match="the driver dies"):
        run(stream, tmp_path, noted)
    with engine.begin() as connection:
        Publication("orders").append(connection, "i")
    run(stream, tmp_path, noted)

    assert noted.batches == {0: quoted("abc"), 1: quoted("defgh"), 2: quoted("i")}
    assert noted.parts == [2, 3, 3, 1]
    table = spark.read.format("publication").options(url=url, publication="orders").load()
    assert [tuple(row)[:4] for row in table.where("offset = 3").collect()] == [
        ("publication:orders:3:0", 3, 0, None),
        ("publication:orders:3:1", 3, 1, None),
    ]
    engine.dispose()


def quoted(letters: str) -> list[str]:
    return [f'"{letter}"' for letter in letters]
