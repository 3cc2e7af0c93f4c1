"""Leaves out the tests that the installed Spark cannot run."""

from importlib.util import find_spec

#: Tests that need the Python Data Source API (since 4.0), and tests that need its batch limits (since 4.2).
_SINCE_4_0 = ["test_spark_document_history.py"]
_SINCE_4_2 = [
    "test_spark_cluster.py",
    "test_spark_connect.py",
    "test_spark_sources.py",
    "test_spark_sql_sources.py",
]

collect_ignore: list[str] = []
if find_spec("pyspark.sql.datasource") is None:
    collect_ignore += _SINCE_4_0
if find_spec("pyspark.sql.streaming.datasource") is None:
    collect_ignore += _SINCE_4_2
