"""The answers of a resolver of DataFrames: it runs on the driver, and its answers are columns of the rows."""

from collections.abc import Mapping
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  (as everybody calls it)

from resolvers.bulk import UUID_COLUMN, AskedInBulk
from resolvers.resolution import NonsenseAnswerError, Resolution, Resolved
from triggers.spark.batch.claims.findings import AGAIN, RowVerdict
from triggers.spark.batch.claims.verdicts import COUNT, KEY, PARTITION, VERDICT
from triggers.spark.rows.fingerprints import FINGERPRINT

#: The columns with the answer of a resolver of DataFrames, and its reason.
RESOLUTION, WHY = "__doubtless_resolution", "__doubtless_why"


def with_answers(aside: DataFrame, resolver: AskedInBulk, verdict: RowVerdict, trigger: str) -> DataFrame:
    """Ask a resolver of DataFrames about the rows with a verdict, and add its answers to them."""
    internal = [KEY, COUNT, PARTITION, FINGERPRINT, VERDICT, RESOLUTION, WHY]
    asked = aside.filter(F.col(VERDICT) == int(verdict)).withColumn(UUID_COLUMN, F.col(KEY))
    answers = resolver.ask_rows(asked.drop(*internal), trigger)
    why = F.col("reason") if "reason" in answers.columns else F.lit(None)
    answered = answers.select(
        F.col(UUID_COLUMN).alias("__doubtless_asked"),
        F.lit(int(verdict)).alias("__doubtless_for"),
        F.col("resolution").cast("string").alias("__doubtless_answer"),
        why.cast("string").alias("__doubtless_answer_why"),
    ).dropDuplicates(["__doubtless_asked"])
    fits = (F.col(KEY) == F.col("__doubtless_asked")) & (F.col(VERDICT) % AGAIN == F.col("__doubtless_for"))
    joined = aside.join(answered, fits, "left")
    has = RESOLUTION in aside.columns
    before, why_before = (F.col(RESOLUTION), F.col(WHY)) if has else (F.lit(None), F.lit(None))
    return joined.withColumns(
        {
            RESOLUTION: F.coalesce(F.col("__doubtless_answer"), before.cast("string")),
            WHY: F.coalesce(F.col("__doubtless_answer_why"), why_before.cast("string")),
        }
    ).drop("__doubtless_asked", "__doubtless_for", "__doubtless_answer", "__doubtless_answer_why")


def answer_in(values: Mapping[str, Any], resolver: AskedInBulk) -> Resolved | Exception:
    """Return the answer of a resolver of DataFrames about a row."""
    answer = values.get(RESOLUTION)
    try:
        return Resolved(Resolution(answer or ""), values.get(WHY))
    except ValueError:
        return NonsenseAnswerError(resolver.name, answer)
