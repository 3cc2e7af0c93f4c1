"""The dashboard: what happens now, what is parked, and the decisions of people, in a browser.

``app.py`` makes the application, ``command.py`` is ``doubtless dashboard``. ``access/`` says who somebody is
and what they may do, ``pages/`` has a module for each page, ``templates/`` and ``static/`` what browsers get;
nothing comes from another address. ``survey.py`` counts what is parked, ``pulse.py`` what consumers do, both
beside the pages: no page waits for a hundred thousand messages. ``groups.py`` puts what is parked in groups,
``places.py`` asks what waits at providers, ``jobs.py`` carries decisions out, ``questions.py`` asks
resolvers; ``operations.py`` has all of that for the pages. ``visit.py`` is one request, ``rendering.py``
makes HTML, ``security.py`` the headers of every answer. What the command line does, it does by the command
line's own functions.
"""

from typing import TYPE_CHECKING

from history.support.faces import lazy

if TYPE_CHECKING:
    from triggers.dashboard.access.roles import Role
    from triggers.dashboard.access.settings import Access, ProxyHeader, Token
    from triggers.dashboard.app import create_app
    from triggers.security.recorder import SecurityLogging
else:  # for a type checker, any name would be there
    __getattr__ = lazy(__name__)

__all__ = ["Access", "ProxyHeader", "Role", "SecurityLogging", "Token", "create_app"]
