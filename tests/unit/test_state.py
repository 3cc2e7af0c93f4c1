"""The folder in which tests store a user's state."""

import pytest

from history.opening import local_parking_file


def test_what_tests_park_locally_is_not_in_the_home_of_whoever_runs_them(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    assert local_parking_file().is_relative_to(tmp_path_factory.getbasetemp())
