"""Options of sources that would fail in a batch are refused when the source is loaded."""

import pytest

from triggers import ConfigurationError

pytest.importorskip("pyspark.sql.streaming.datasource", reason="Spark has no sources in Python before 4.2")

from triggers.spark.sources.reader import SourceOptions


@pytest.mark.parametrize(
    "number", ["0", "-1", "1.5", "1_0", "", "2147483648", pytest.param("9" * 5000, id="long")]
)
@pytest.mark.parametrize("option", ["maxRowsPerBatch", "maxRowsPerPartition"])
def test_a_number_of_rows_that_no_database_takes_is_refused(option: str, number: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        SourceOptions("log", {option: number}).reading()

    assert refused.value.setting == option


@pytest.mark.parametrize("seconds", ["-1", "nan", "inf", "1e300", "soon", ""])
def test_a_patience_that_is_no_duration_is_refused(seconds: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        SourceOptions("log", {"patience": seconds}).reading()

    assert refused.value.setting == "patience"


def test_the_largest_values_are_taken() -> None:
    reading = SourceOptions("log", {"MAXROWSPERBATCH": "2147483647", "patience": "86400"}).reading()

    assert (reading.rows_of_a_batch, reading.patience) == (2**31 - 1, 86400)
