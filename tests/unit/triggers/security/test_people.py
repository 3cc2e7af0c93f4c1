"""The command line names its real user, whatever the environment says."""

import os
import pwd
import socket

import pytest

from triggers.security.commands import OsUser, os_user


def test_it_is_who_runs_the_process_and_not_what_a_variable_says(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("USER", "LOGNAME", "USERNAME"):
        monkeypatch.setenv(name, "somebody else")
    monkeypatch.delenv("SUDO_USER", raising=False)

    found = os_user()

    assert found == OsUser(pwd.getpwuid(os.getuid()).pw_name, socket.gethostname())
    assert str(found) == f"{found.name}@{found.host}"


def test_who_came_by_sudo_is_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUDO_USER", "ana")

    assert os_user().sudo_user == "ana"
    assert "ana" in str(os_user())


def test_a_user_without_a_name_is_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 4_000_000_000)

    assert "4000000000" in os_user().name
