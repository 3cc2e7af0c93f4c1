"""``doubtless sqlremote``.

``commands.py`` has the commands, ``work.py`` and ``comparing.py`` their work, and ``running.py`` runs links
outside of a consumer. The work is loaded at its first use, because it loads SQLAlchemy.
"""

from typing import TYPE_CHECKING

from history.support.faces import lazy

if TYPE_CHECKING:
    from triggers.cli.sqlremote import comparing as comparing
    from triggers.cli.sqlremote import work as work
else:  # for a type checker, any name would be there
    __getattr__ = lazy(__name__)
