"""Whether the sink has committed a batch: one question to a sink that knows it, by ``committed=``.

An earlier run of the batch entered the function, and nobody completed its rows: its driver died, or the
function failed. If the sink has the batch, its rows are completed and the function is not called. If not, the
function is called again with all rows that it had, as for a sink that is rewritten.
"""

import logging
from dataclasses import replace

from history.errors import ConfigurationError
from history.store.progress import BatchRecord
from triggers.spark.batch_info import BatchInfo, LedgerPlace
from triggers.spark.settings import BatchSettings

_log = logging.getLogger(__name__)

#: Why a row is In Doubt if the sink has committed its batch, perhaps without this row.
LEFT_OUT = "the sink has committed this batch, and it is not known that this row was handed to it"


def info_of(settings: BatchSettings, record: BatchRecord) -> BatchInfo:
    """Return the run and the batch that a record describes."""
    ledger_place = LedgerPlace(
        history=settings.history, trigger=settings.name, patience=settings.patience, run=record.run
    )
    return BatchInfo(record.query, record.lineage, record.batch, record.attempt, ledger_place)


def is_committed(settings: BatchSettings, record: BatchRecord) -> bool:
    """Ask whether the sink has the batch, if an earlier run may have written it.

    Raises:
        ConfigurationError: the answer is neither yes nor no.
        Exception: the exception of the user's function ``committed``.
    """
    return _may_be_written(record) and asked(settings, record)


def asked(settings: BatchSettings, record: BatchRecord) -> bool:
    """Ask whether the sink has the batch; no, without a function to ask.

    Raises:
        ConfigurationError: the answer is neither yes nor no.
        Exception: the exception of the user's function ``committed``.
    """
    if settings.committed is None:
        return False
    info = info_of(settings, record)
    answer = settings.committed(info)
    if not isinstance(answer, bool):  # pyright: ignore[reportUnnecessaryIsInstance]  (the user's code)
        raise ConfigurationError("committed", f"answered {answer!r:.60}", "return True or False")
    _log.info(
        "the sink says that it has %scommitted batch %s of %s",
        "" if answer else "not ",
        info.batch_id,
        info.query,
        extra={"trigger": settings.name},
    )
    return answer


def as_not_committed(settings: BatchSettings, record: BatchRecord) -> BatchSettings:
    """Return the settings for a batch that the sink does not have: all rows, if the function was cut off."""
    if settings.committed is None or not record.unfinished:
        return settings
    return replace(settings, on_replay="execute")


def _may_be_written(record: BatchRecord) -> bool:
    """Whether an earlier run has entered the function; if that is not known, it may have."""
    return record.attempt > 1 and (bool(record.entered) or record.line == record.run)
