"""URLs that refer to a secret instead of containing it."""

from pathlib import Path
from typing import Any

import pytest

from history import ConfigurationError, open_history
from history.support.references import dereferenced
from triggers import open_provider


def secret(file: Path, data: bytes, mode: int = 0o600) -> None:
    file.write_bytes(data)
    file.chmod(mode)


@pytest.mark.parametrize(
    "url", ["redis://127.0.0.1:6379/0?protocol=3", "sqlite:///file.db", "memory://", "postgresql://a:b@c/d"]
)
def test_a_url_without_a_reference_stays_as_it_is(url: str) -> None:
    assert dereferenced(url, "history") == url


@pytest.mark.parametrize("url", [None, 42, b"memory://", Path("orders.sqlite3")], ids=repr)
def test_only_a_text_is_a_url(url: Any) -> None:
    for opened, option in ((open_history, "history"), (open_provider, "provider")):
        with pytest.raises(ConfigurationError) as refused:
            opened(url)
        assert refused.value.setting == option


def test_a_whole_url_may_stand_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ORDERS_HISTORY", "memory://orders")

    assert open_history("env:ORDERS_HISTORY") is open_history("memory://orders")


def test_a_whole_url_may_stand_in_a_file(tmp_path: Path) -> None:
    secret(tmp_path / "url", b"redis://127.0.0.1:6379/0\n")

    assert dereferenced(f"file:{tmp_path}/url", "history") == "redis://127.0.0.1:6379/0"


def test_a_password_and_a_name_become_the_account_of_the_url(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("USER_OF_REDIS", "orders")
    secret(tmp_path / "secret", b"a/b@c#d?e")

    url = dereferenced(
        f"redis+sentinel://a:1,b:2/service/0?username=env:USER_OF_REDIS&password=file:{tmp_path}/secret"
        "&protocol=3",
        "history",
    )

    assert url == "redis+sentinel://orders:a%2Fb%40c%23d%3Fe@a:1,b:2/service/0?protocol=3"


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        pytest.param(
            "redis+sentinel://orders:x@a:1/service?sentinel_username=eyes&sentinel_password=env:PASSWORD",
            "redis+sentinel://orders:x@a:1/service?sentinel_username=eyes&sentinel_password=a%26b",
            id="the account at the sentinels stays in the options",
        ),
        pytest.param(
            "amqp://app@host:5672?password=env:PASSWORD",
            "amqp://app:a%26b@host:5672",
            id="the name of the URL stays beside a password",
        ),
    ],
)
def test_a_password_comes_from_the_environment(
    monkeypatch: pytest.MonkeyPatch, url: str, expected: str
) -> None:
    monkeypatch.setenv("PASSWORD", "a&b")

    assert dereferenced(url, "history") == expected


@pytest.mark.parametrize(
    ("data", "mode", "user"),
    [
        pytest.param(b"hunter2", 0o600, None, id="of this user"),
        pytest.param(b"hunter2", 0o640, None, id="of its group"),
        pytest.param(b"hunter2", 0o444, 4711, id="mounted by somebody else"),
        pytest.param("\ufeffhunter2\r\n".encode(), 0o600, None, id="of an editor of Windows"),
    ],
)
def test_a_secret_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data: bytes, mode: int, user: int | None
) -> None:
    secret(tmp_path / "secret", data, mode)
    if user is not None:
        monkeypatch.setattr("os.geteuid", lambda: user)

    assert dereferenced(f"redis://u@h?password=file:{tmp_path}/secret", "history") == "redis://u:hunter2@h"


def test_a_secret_that_is_no_text_is_refused_and_not_quoted(tmp_path: Path) -> None:
    secret(tmp_path / "secret", b"\xffhunter2")

    with pytest.raises(ConfigurationError, match=r"secret cannot be read: it is not UTF-8; write") as refused:
        dereferenced(f"redis://u@h?password=file:{tmp_path}/secret", "history")

    assert "0xff" not in str(refused.value)


@pytest.mark.parametrize("reference", ["env:NOT_SET_ANYWHERE", "file:/no/such/file"])
def test_what_is_not_there_is_named_and_nothing_else(reference: str) -> None:
    with pytest.raises(
        ConfigurationError, match=f"history: {reference} .*(set the environment|write the value)"
    ):
        dereferenced(f"redis://u@h/0?password={reference}", "history")


@pytest.mark.parametrize("mode", [0o644, 0o604])
def test_a_secret_that_all_users_may_read_is_refused(tmp_path: Path, mode: int) -> None:
    secret(tmp_path / "secret", b"hunter2", mode)

    with pytest.raises(ConfigurationError) as error:
        dereferenced(f"redis://u@h?password=file:{tmp_path}/secret", "history")

    assert error.value.setting == "history"
    assert f"{mode:o}" in error.value.problem
    assert "hunter2" not in str(error.value)
