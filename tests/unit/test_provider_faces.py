"""The faces of the providers' packages: every public name is there; drivers are loaded when they are used."""

import subprocess
import sys
from importlib import import_module

import pytest

PACKAGES = (
    "triggers.patchbay",
    "triggers.providers",
    "triggers.providers.amqp",
    "triggers.providers.contract",
    "triggers.providers.jms",
    "triggers.providers.rabbitmq",
    "triggers.providers.redis_streams",
    "triggers.providers.sqljms",
    "triggers.providers.sqlremote",
    "triggers.selectors",
)

DRIVERS = ("jpype", "pika", "proton", "psycopg", "redis", "sqlalchemy")


@pytest.mark.parametrize("package", PACKAGES)
def test_each_public_name_of_a_package_is_there(package: str) -> None:
    face = import_module(package)

    assert [name for name in face.__all__ if not hasattr(face, name)] == []


def test_the_protocol_of_providers_loads_no_driver() -> None:
    code = (
        "import sys; from triggers.providers import Provider, read; "
        f"print([name for name in {DRIVERS} if name in sys.modules])"
    )

    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert ended.stdout.strip() == "[]"
