"""The addresses from which the dashboard trusts a reverse proxy."""

import pytest

from triggers import ConfigurationError
from triggers.dashboard import ProxyHeader


@pytest.mark.parametrize(
    ("host", "believed"),
    [
        ("10.1.2.3", True),
        ("::ffff:10.1.2.3", True),
        ("fd00::7", True),
        ("11.1.2.3", False),
        ("fd00::8", False),
        ("testclient", False),
    ],
)
def test_a_proxy_is_believed_from_its_addresses_and_networks(host: str, believed: bool) -> None:  # noqa: FBT001
    proxy = ProxyHeader(user_header="x-user", addresses=frozenset({"10.0.0.0/8", "fd00::7"}))

    assert proxy.is_at(host) is believed


@pytest.mark.parametrize("address", ["proxy.example", "10.0.0.1/8", "", "10.0.0"])
def test_what_is_neither_an_address_nor_a_network_is_refused(address: str) -> None:
    with pytest.raises(ConfigurationError):
        ProxyHeader(user_header="x-user", addresses=frozenset({address}))
