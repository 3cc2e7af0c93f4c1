"""The results of killed processes, from a module's ``broker``; a module may define these fixtures itself."""

import pytest

from tests.crash.conftest import Once
from tests.crash.helpers.aftermath import Left
from tests.crash.helpers.brokers import Broker
from tests.crash.helpers.deaths import Death
from tests.crash.helpers.sends import SendsLeft


@pytest.fixture(scope="module")
def deaths_left(broker: Broker, tmp_path_factory: pytest.TempPathFactory, once: Once) -> dict[Death, Left]:
    return once(f"deaths {broker.url}", lambda: broker.deaths(tmp_path_factory.mktemp("deaths")))


@pytest.fixture(scope="module")
def sends_left(broker: Broker, tmp_path_factory: pytest.TempPathFactory, once: Once) -> SendsLeft:
    return once(f"sends {broker.url}", lambda: broker.sends(tmp_path_factory.mktemp("sends")))
