"""The pytest plugin under its former name: ``-p doubtless.pytest_plugin`` is the one to use."""

from pytest_doubtless import *  # noqa: F403
