"""The pytest plugin for ``-p doubtless.pytest_plugin``. pytest loads it where doubtless is installed."""

from pytest_doubtless import *
