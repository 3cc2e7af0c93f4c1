"""The claims of a Spark task, without Spark: each row gets its own verdict."""

from datetime import timedelta
from typing import Any

import numpy as np
import pyarrow as pa  # pyright: ignore[reportMissingTypeStubs]

from history.bridge import drive
from history.entry import EntryOutcome
from history.store import BatchOwner
from triggers.detection.table import Policy
from triggers.spark.batch.claims.bulk import BulkClaim
from triggers.spark.batch.claims.findings import RowVerdict
from triggers.spark.batch.claims.verdicts import ClaimTerms
from triggers.spark.batch.owners import BatchRun
from triggers.spark.connections import close_history, history_at

_arrow: Any = pa
_NAME = "packed"


def test_each_verdict_stands_beside_its_own_row(redis_url: str) -> None:
    rows = [f"row-{number:04}" for number in range(1000)]
    done, own = set(rows[::7]), set(rows[3::7])
    run, earlier = (BatchRun(lineage="q", batch=1, token=token, line="l") for token in ("new", "old"))
    history, before = history_at(redis_url), BatchOwner("q/0/l.done")
    drive(history.claim(_NAME, sorted(done), before))
    drive(history.settle_batches(_NAME, [before], EntryOutcome.OK))
    drive(history.claim(_NAME, sorted(own), earlier.owner))
    claim = BulkClaim(
        url=redis_url,
        trigger=_NAME,
        time_to_live=timedelta(days=7),
        lease=None,
        patience=timedelta(seconds=9),
        table=ClaimTerms(
            policy=Policy(max_delivery_count=100), asks=False, asks_replayed=False, executes_replayed=False
        ).table(),
        executes_replayed=False,
        run=run,
        closes=False,
    )

    (verdicts,) = claim.verdicts(iter([(_arrow.array(rows), _arrow.array(np.full(1000, -1)))]))

    told = dict(zip(rows, verdicts.tolist(), strict=True))
    assert {row for row, verdict in told.items() if verdict == RowVerdict.DUPLICATE} == done
    assert {row for row, verdict in told.items() if verdict == RowVerdict.NEW} == set(rows) - done - own
    assert {row for row, verdict in told.items() if verdict == RowVerdict.ADOPTED} == own
    owners = {entry and entry.owner for entry in drive(history.lookup(_NAME, sorted(set(rows) - done)))}
    assert owners == {run.owner.token}, "rows of the run that never came to its function are adopted"
    close_history(redis_url)
