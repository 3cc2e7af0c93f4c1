"""Rows and history entries in one transaction of a database: :func:`atomic_sink`.

====================  ======================================================
``sink.py``           :func:`atomic_sink`, and how it handles a batch
``transactions.py``   what its tasks do: claim, write, complete
``writers.py``        rows into a table
====================  ======================================================
"""

from typing import TYPE_CHECKING

from history.support.faces import lazy

if TYPE_CHECKING:
    from triggers.spark.atomic_sink.sink import AtomicSink, RowsWriter, TableWriter, atomic_sink, into_table
else:  # a type checker would accept any name
    __getattr__ = lazy(__name__)

__all__ = ["AtomicSink", "RowsWriter", "TableWriter", "atomic_sink", "into_table"]
