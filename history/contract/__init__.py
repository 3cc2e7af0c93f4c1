"""The conformance suite of document histories: every :class:`~history.store.HistoryStore` must pass it.

The author of a store subclasses :class:`HistoryContract` in a test module and provides three fixtures::

    class TestMyHistory(HistoryContract):
        @pytest.fixture
        def blocking(self) -> bool: ...                  # False for a store over an asyncio driver

        @pytest.fixture
        def store(self) -> Iterator[HistoryStore]: ...   # empty; closed afterwards

        @pytest.fixture
        def another(self) -> Iterator[HistoryStore]: ... # a second client of the same server

Every check is an ``async def``, so pytest-asyncio runs it (``asyncio_mode = "auto"``); the coroutines of a
blocking store never suspend. The random runs need hypothesis. For readable failures, add
``pytest.register_assert_rewrite("history.contract")`` to ``conftest.py``.

If the server may come back with older data (a backup, a replica that lagged), override ``snapshot`` and
``restore`` as well; see :class:`~history.contract.rollback.RollbackContract`. If other programs can write
the store's entries, override ``spoil_entry``; see :class:`~history.contract.upkeep.UpkeepContract`.

A store may differ in these points. ``Entry.owner`` of a completed entry may be None. Instants of a completed
entry may be as coarse as ``coarseness``, but nothing may expire early. ``purge`` may find nothing, if the
server itself deletes expired entries. ``survives_forks`` is false for a store in the memory of one process,
``renews_batches`` for a store without :class:`~history.store.BatchLeases`, and ``renews_many`` for a store
without :class:`~history.store.ManyLeases`. A store without :class:`~history.store.Records` skips the checks
of records.

Each other file here has the checks of one subject; ``common.py`` has their shared parts.
"""

from history.contract.amounts import AmountContract
from history.contract.batches import BatchContract
from history.contract.claims import AdoptionContract, ClaimContract
from history.contract.fences import FenceContract
from history.contract.forks import ForkContract
from history.contract.races import RaceContract
from history.contract.records import RecordContract
from history.contract.rollback import RollbackContract
from history.contract.runs import RunContract
from history.contract.steps import StepContract
from history.contract.times import TimeContract
from history.contract.upkeep import UpkeepContract

__all__ = ["HistoryContract"]


class HistoryContract(
    ClaimContract,
    FenceContract,
    TimeContract,
    BatchContract,
    UpkeepContract,
    AmountContract,
    AdoptionContract,
    RecordContract,
    StepContract,
    RaceContract,
    ForkContract,
    RollbackContract,
    RunContract,
):
    """Everything that a :class:`~history.store.HistoryStore` must do; subclass it with the three fixtures."""
