"""Tools to test triggers with: a simulator of everything that goes wrong, and private servers.

``simulator/`` is the simulator, and ``pytest_doubtless`` makes a fixture of it. ``redis_server.py`` and
``postgres_server.py`` are servers, each a ``child.py`` of the process.
"""

from typing import TYPE_CHECKING

from history.support.faces import lazy

if TYPE_CHECKING:
    from triggers.testing.simulator.batches.exactly_once_batch import exactly_once_batch as exactly_once_batch
    from triggers.testing.simulator.effects import Effects as Effects
    from triggers.testing.simulator.exactly_once import exactly_once as exactly_once
    from triggers.testing.simulator.report import Finding as Finding
    from triggers.testing.simulator.report import Report as Report
    from triggers.testing.simulator.script import scripts as scripts
    from triggers.testing.simulator.simulator import Simulator as Simulator
    from triggers.testing.simulator.tables import rows as rows
else:  # a type checker would accept any name
    __getattr__ = lazy(__name__)
