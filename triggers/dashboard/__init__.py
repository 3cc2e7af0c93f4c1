"""The dashboard: the present state, parked messages, and people's decisions, in a browser.

``app.py`` makes the application, and ``command.py`` is ``doubtless dashboard``.
``access/`` decides who somebody is and what they may do. ``api/`` has the addresses for programs, and
``charts/`` draws the last hour and day.
``pages/`` has a module for each page, and ``templates/`` and ``static/`` have the files for browsers; nothing
comes from another address. ``survey.py`` counts parked messages and ``pulse.py`` reads consumers' reports,
both beside the pages: no page waits for a hundred thousand messages. ``pulse.py`` also says which history a
trigger has. ``groups.py`` puts parked messages in groups,
``filters.py`` narrows them, ``places.py`` asks providers for waiting messages,
``jobs/`` carries decisions out, and ``questions.py`` asks resolvers; ``operations.py`` has all of that for
the pages. ``visit.py`` is one request, ``rendering.py`` makes HTML, and ``security.py`` the headers of every
answer. If the command line has a function for a task, the dashboard calls it.
"""

from typing import TYPE_CHECKING

from history.support.faces import lazy

if TYPE_CHECKING:
    from triggers.dashboard.access.roles import Role as Role
    from triggers.dashboard.access.settings import Access as Access
    from triggers.dashboard.access.settings import ProxyHeader as ProxyHeader
    from triggers.dashboard.access.settings import Token as Token
    from triggers.dashboard.app import create_app as create_app
    from triggers.security.recorder import SecurityLogging as SecurityLogging
else:  # a type checker would accept any name
    __getattr__ = lazy(__name__)
