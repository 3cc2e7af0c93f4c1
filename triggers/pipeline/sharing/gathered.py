"""Share the calls of many tasks of one trigger: claims and settlements that are requested together.

Each message still has its own result: it is claimed right before its service runs, and settled right after.
Only the round trips are shared. Claims of one call have one token, like the claims of a batch.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from time import monotonic

from history.entry import Claim, Settlement
from history.gathering import Gathering
from history.store import HistoryStore
from history.store.owners import owner_token
from triggers.service.settings import Settings

#: The most messages of one call.
MOST = 200


@dataclass(slots=True)
class Asking:
    """One message to claim; ``owner`` and ``asked_at`` (monotonic) are set when the call is sent."""

    uuid: str
    owner: str = ""
    asked_at: float = 0.0


class GatheredCalls:
    """The calls to the history that a trigger's tasks share, on one event loop."""

    def __init__(self, settings: Settings, store: HistoryStore) -> None:
        self._settings = settings
        self._store = store
        self._claims: Gathering[Asking, Claim] = Gathering(self._claim_all, most=MOST)
        self._settlements: Gathering[Settlement, bool] = Gathering(self._settle_all, most=MOST)

    async def claim(self, asking: Asking) -> Claim:
        """Claim a message's uuid.

        Raises:
            Exception: as the store's ``claim``; ``asking.owner`` is the token that may have the entry then.
        """
        return await self._claims.ask(asking)

    async def settle(self, settlement: Settlement) -> bool:
        """Complete or release a claim; see the store's ``settle``."""
        return await self._settlements.ask(settlement)

    async def _claim_all(self, asked: Sequence[Asking]) -> Sequence[Claim]:
        claims: dict[int, Claim] = {}
        left: list[tuple[int, Asking]] = list(enumerate(asked))
        while left:
            # With copies of a message, the second copy must not take the entry of the first for its own.
            first = {asking.uuid: (index, asking) for index, asking in reversed(left)}
            claims.update(await self._claim_once(list(first.values())))
            left = [(index, asking) for index, asking in left if index not in claims]
        return [claims[index] for index in range(len(asked))]

    async def _claim_once(self, some: Sequence[tuple[int, Asking]]) -> dict[int, Claim]:
        owner, asked_at = owner_token(), monotonic()
        for _, asking in some:
            asking.owner, asking.asked_at = owner, asked_at
        claims = await self._store.claim(
            self._settings.name,
            [asking.uuid for _, asking in some],
            owner,
            self._settings.lease,
            time_to_live=self._settings.history_time_to_live,
        )
        return {index: claim for (index, _), claim in zip(some, claims, strict=True)}

    async def _settle_all(self, settlements: Sequence[Settlement]) -> Sequence[bool]:
        return await self._store.settle(self._settings.name, settlements)
