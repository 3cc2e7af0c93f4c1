"""The fences of a SQL history after its database came back with older data: a backup, a replica that lagged.

The database would grant again the fences that it no longer knows. A client knows the greatest fence that it
was granted. Fences are granted in order, so a later fence that is not greater reveals the loss. Fences count
from 1, one with each claim, which takes longer than a microsecond. So no granted fence, even of a client that
is gone, is greater than the microseconds since 1970, and fences go on from there.

A client that was not granted any of the lost fences cannot notice. Two owners may then have the same fence,
and only their names distinguish them (see :class:`~history.entry.Settlement`).

The anchor is a row that nothing deletes. If it is missing, somebody emptied the table: TRUNCATE and DELETE
without a condition leave the other tables and the fences unchanged. Without the anchor, nothing would show
that messages run again. Each claim reads the anchor in its single statement.
"""

import logging
from collections.abc import Iterable
from functools import partial

from history.entry import Fence
from history.sql.database.engine import AnyConnection, execute, fetch
from history.sql.statements.dialects import statement
from history.sql.statements.entries import ANCHOR, NOTE_ANCHORED, READ_ANCHORED
from history.sql.tables.history import Prepared

_log = logging.getLogger(__name__)

#: Let fences go on after the microseconds since 1970, unless that was done already.
STEP_OVER = statement(
    sqlite="""
        UPDATE doubtless_meta SET value = MAX(:known, {now} * 1000)
        WHERE name = 'fence' AND value <= :known
    """,
    postgresql="""
        SELECT setval('doubtless_fences', GREATEST(CAST(:known AS BIGINT), {now} * 1000))
        FROM doubtless_fences WHERE last_value <= :known
    """,
)


class Granted:
    """The greatest fence that a history was granted; its views share one object. Safe between threads."""

    def __init__(self, greatest: int = 0, *, notes: bool = True) -> None:
        self.greatest = Fence(greatest)
        self._notes = notes

    def frozen(self) -> "Granted":
        """Return a copy that stays at the present value."""
        return Granted(self.greatest, notes=False)

    def note(self, fences: Iterable[Fence]) -> None:
        """Remember the greatest fence."""
        if not self._notes:
            return
        # Two threads may meet here, and the smaller fence win: then a loss shows later, but never wrongly.
        self.greatest = max(self.greatest, *fences, Fence(0))

    async def step_over(self, database: Prepared, trigger: str) -> None:
        """Log the loss, and make the next fence greater than any before."""
        _log.critical(
            "the document history of %s is older than it was: messages processed since are NEW again",
            trigger,
            extra={"trigger": trigger},
        )
        await database.run("stepping over fences", partial(_step_over, known=self.greatest))


async def _step_over(connection: AnyConnection, *, known: Fence) -> None:
    await execute(connection, STEP_OVER, known=known)


class Anchor:
    """Whether a history's anchor was ever there; a history and its views share one object."""

    def __init__(self) -> None:
        self._seen = False

    async def check(self, database: Prepared, trigger: str, *, anchored: bool) -> None:
        """Remember an anchor that a claim saw; write a missing one again, and log if it was there before.

        Whoever writes it logs the loss, so only one process does. This process does not rely on the note in
        doubtless_meta alone: somebody who empties all tables deletes the note as well.
        """
        if anchored:
            self._seen = True
            return
        write = partial(_write_anchor, seen=self._seen)
        if await database.run("looking at the anchor", write, atomic=True):
            _log.critical(
                "the document history of %s was emptied: messages processed before are NEW again",
                trigger,
                extra={"trigger": trigger},
            )


async def _write_anchor(connection: AnyConnection, *, seen: bool) -> bool:
    noted = bool(await fetch(connection, READ_ANCHORED))
    is_first = bool(await fetch(connection, ANCHOR))
    if not noted:
        await execute(connection, NOTE_ANCHORED)
    return (seen or noted) and is_first
