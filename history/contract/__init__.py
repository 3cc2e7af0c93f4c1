"""The conformance suite of document histories: what any :class:`~history.store.HistoryStore` must pass.

A store's author subclasses :class:`HistoryContract` in a test module and provides three fixtures::

    class TestMyHistory(HistoryContract):
        @pytest.fixture
        def blocking(self) -> bool: ...                  # False for a store over an asyncio driver

        @pytest.fixture
        def store(self) -> Iterator[HistoryStore]: ...   # empty; closed afterwards

        @pytest.fixture
        def another(self) -> Iterator[HistoryStore]: ... # a second client of the same server

Every check is an ``async def``, so pytest-asyncio runs it (``asyncio_mode = "auto"``); a blocking store's
coroutines simply never suspend. The random runs need hypothesis. For readable failures, add
``pytest.register_assert_rewrite("history.contract")`` to ``conftest.py``.

A store whose server may come back with older data (a backup, a replica that lagged) overrides ``snapshot``
and ``restore`` as well; see :class:`~history.contract.rollback.RollbackContract`. One whose records
others can write overrides ``spoil_parked``, ``spoil_entry`` and ``spoil_report``; see
:class:`~history.contract.parking.ParkingContract`.

What is left to a store: ``Entry.owner`` of a completed entry may be None; instants of a completed entry may
be as coarse as ``coarseness``, but nothing may expire early; ``purge`` may find that the server was faster.
Of a store in the memory of one process, ``survives_forks`` is to be false; so is ``renews_batches``
of one that is no :class:`~history.store.BatchLeases`, and ``renews_many`` of one that is no
:class:`~history.store.ManyLeases`.

Each other file here holds the checks of one subject; ``common.py`` is what they share.
"""

from history.contract.adoption import AdoptionContract
from history.contract.amounts import AmountContract
from history.contract.batches import BatchContract
from history.contract.claims import ClaimContract
from history.contract.control import ControlContract
from history.contract.decisions import DecisionContract
from history.contract.fences import FenceContract
from history.contract.forks import ForkContract
from history.contract.join_periods import JoinPeriodContract
from history.contract.joining import JoiningContract
from history.contract.parking import ParkingContract
from history.contract.races import RaceContract
from history.contract.records import RecordContract
from history.contract.rollback import RollbackContract
from history.contract.runs import RunContract
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
    ParkingContract,
    DecisionContract,
    JoiningContract,
    JoinPeriodContract,
    ControlContract,
    AdoptionContract,
    RecordContract,
    RaceContract,
    ForkContract,
    RollbackContract,
    RunContract,
):
    """Everything that a :class:`~history.store.HistoryStore` must do; subclass it with the three fixtures."""
