"""The pytest plugin for ``-p doubtless.pytest_plugin``. pytest loads it itself where doubtless is installed."""

from pytest_doubtless import *
