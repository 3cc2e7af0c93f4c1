"""The fences of a SQL history whose database came back with older data: a backup, a replica that lagged.

The database would grant fences again that it does not know of any more. A client knows the greatest one that
it was granted, and since fences are granted in order, a later one that is not above it tells. Fences count
from 1, one with each claim, which takes longer than a microsecond: so none that was ever granted, also to
clients that are gone, is greater than the microseconds since 1970, and there they are made to go on.

A client that was not granted any of the lost ones cannot tell. Two owners may then have the same fence, and
are told apart by their names (see :class:`~history.entry.Settlement`).
"""

import logging
from collections.abc import Iterable
from functools import partial

from history.entry import Fence
from history.sql.database.engine import AnyConnection, execute
from history.sql.statements.dialects import statement
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
    """The greatest fence that a history was granted; its views share one. Safe between threads."""

    def __init__(self, greatest: int = 0, *, notes: bool = True) -> None:
        self.greatest = Fence(greatest)
        self._notes = notes

    def frozen(self) -> "Granted":
        """Return one that stays as this is now."""
        return Granted(self.greatest, notes=False)

    def note(self, fences: Iterable[Fence]) -> None:
        """Remember the greatest."""
        if not self._notes:
            return
        # Two threads may meet here, and the smaller one win: that tells later, not wrongly.
        self.greatest = max(self.greatest, *fences, Fence(0))

    async def step_over(self, database: Prepared, trigger: str) -> None:
        """Say that something was lost, and see to it that the next fence is greater than any before."""
        _log.critical(
            "the document history of %s is older than it was: messages processed since are NEW again",
            trigger,
            extra={"trigger": trigger},
        )
        await database.run("stepping over fences", partial(_step_over, known=self.greatest))


async def _step_over(connection: AnyConnection, *, known: Fence) -> None:
    await execute(connection, STEP_OVER, known=known)
