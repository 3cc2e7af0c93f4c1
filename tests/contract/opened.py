"""Providers of one server, which are opened by a URL, for the conformance suite."""

from collections.abc import AsyncIterator
from typing import ClassVar

import pytest

from triggers.providers import Provider, open_provider
from triggers.providers.contract.common import ContractTools


class OpenedContract(ContractTools):
    """Opens two providers of one URL; a subclass gives the URL, and says whether they are for asyncio."""

    asyncio: ClassVar[bool] = False

    @property
    def url(self) -> str:
        raise NotImplementedError

    def opened(self) -> Provider:
        provider = open_provider(self.url)
        return provider.for_asyncio() if self.asyncio else provider

    @pytest.fixture
    async def provider(self) -> AsyncIterator[Provider]:
        provider = self.opened()
        yield provider
        await provider.close()

    @pytest.fixture
    async def another(self) -> AsyncIterator[Provider]:
        provider = self.opened()
        yield provider
        await provider.close()
