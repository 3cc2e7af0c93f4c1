"""The conformance suite of providers, which any :class:`~triggers.providers.provider.Provider` must pass.

Subclass :class:`ProviderContract` in a test module. Provide two fixtures and a way to send an unreadable
delivery, unless none can arrive (``sends_garbage = False``)::

    class TestMyProvider(ProviderContract):
        @pytest.fixture
        def provider(self) -> Iterator[Provider]: ...

        @pytest.fixture
        def another(self) -> Iterator[Provider]: ...   # a second connection to the same server

        async def send_garbage(self, destination: str, count: int) -> None: ...   # past the provider

Every check is an ``async def``, so pytest-asyncio runs it (``asyncio_mode = "auto"``); a blocking provider's
coroutines simply never suspend. For readable failures, add
``pytest.register_assert_rewrite("triggers.providers.contract")`` to ``conftest.py``.

Every check opens its receivers before it sends, and uses a new destination. The attributes of
:class:`~triggers.providers.contract.common.ContractTools` hold what a provider may choose.
"""

from triggers.providers.contract.answering import AnsweringContract
from triggers.providers.contract.arriving import ArrivingContract, UndecodableContract
from triggers.providers.contract.delaying import DelayingContract, WaitingContract
from triggers.providers.contract.sharing import ForkingContract, SharingContract, TakingOverContract

__all__ = ["ProviderContract"]


class ProviderContract(
    ArrivingContract,
    SharingContract,
    AnsweringContract,
    DelayingContract,
    TakingOverContract,
    ForkingContract,
    UndecodableContract,
    WaitingContract,
):
    """Everything that a provider must do; subclass it with the two fixtures, and define what garbage is."""
