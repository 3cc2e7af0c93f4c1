"""The application: the page at each address, and the role that it needs."""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from history.beside.kept import needed_beside
from history.bridge import drive
from history.errors import DoubtlessError, MissingExtraError
from history.opening import open_history
from history.store import HistoryStore
from triggers.configuration import Configuration
from triggers.consumer.options import AnyTrigger
from triggers.dashboard.access.roles import Role
from triggers.dashboard.access.sessions import Session, Sessions
from triggers.dashboard.access.settings import Access
from triggers.dashboard.operations import Operations
from triggers.security.recorder import Recorder

try:
    from starlette.applications import Starlette
    from starlette.concurrency import run_in_threadpool
    from starlette.middleware import Middleware
    from starlette.requests import HTTPConnection, Request
    from starlette.responses import PlainTextResponse, Response
    from starlette.routing import BaseRoute, Mount, Route
    from starlette.staticfiles import StaticFiles

    from triggers.dashboard.access.gate import AccessGate
    from triggers.dashboard.access.records import denial_of, end_of
    from triggers.dashboard.api.routes import OPERATIONS
    from triggers.dashboard.pages import (
        decide,
        decisions,
        export,
        failures,
        message,
        overview,
        parked,
        progress,
        providers,
        security,
        spark,
        story,
        triggers,
    )
    from triggers.dashboard.pages.live import Live
    from triggers.dashboard.pages.metrics import Metrics
    from triggers.dashboard.pages.sign_in import SignIn, sign_out
    from triggers.dashboard.security import Secured
    from triggers.dashboard.visit import Page, endpoint
except ModuleNotFoundError as missing:
    raise MissingExtraError(
        "triggers.dashboard", extra="dashboard", package=(missing.name or "").partition(".")[0]
    ) from missing

#: The pages that only show something, and who may see them.
SHOWN: dict[str, tuple[Page, Role]] = {
    "/": (overview.overview, Role.VIEWER),
    "/parked": (parked.groups, Role.VIEWER),
    "/group": (parked.group, Role.VIEWER),
    "/export": (export.export, Role.VIEWER),
    "/message": (message.message, Role.VIEWER),
    "/decide": (decide.preview, Role.OPERATOR),
    "/job": (progress.job, Role.VIEWER),
    "/decisions": (decisions.decisions, Role.VIEWER),
    "/story": (story.story_of, Role.VIEWER),
    "/triggers": (triggers.triggers, Role.VIEWER),
    "/trigger": (triggers.trigger, Role.VIEWER),
    "/providers": (providers.providers, Role.VIEWER),
    "/spark": (spark.queries, Role.VIEWER),
    "/query": (spark.query, Role.VIEWER),
    "/failures": (failures.failures, Role.VIEWER),
    "/security": (security.security, Role.ADMIN),
}

#: The pages that change something, and who may use them.
DONE: dict[str, tuple[Page, Role]] = {
    "/decide": (decide.decide, Role.OPERATOR),
    "/cancel": (progress.cancel, Role.OPERATOR),
    "/continue": (progress.resume, Role.OPERATOR),
    "/letters": (providers.letters, Role.OPERATOR),
    "/comment": (message.comment, Role.OPERATOR),
    "/filter": (parked.save_filter, Role.OPERATOR),
    "/forget-filter": (parked.remove_filter, Role.OPERATOR),
    "/resolve": (message.resolve, Role.OPERATOR),
    "/order": (triggers.order, Role.OPERATOR),
    "/sign-out": (sign_out, Role.VIEWER),
}


def create_app(
    history: str,
    *,
    access: Access,
    triggers: Sequence[AnyTrigger] = (),
    providers: Sequence[str] = (),
    store: HistoryStore | None = None,
    configuration: Configuration | None = None,
    background: bool = True,
    stopping: Callable[[], bool] = bool,
) -> Starlette:
    """Return the dashboard over the history at a URL, as an ASGI application.

    Parked messages can be run with ``triggers``; without any they can be settled and discarded. ``providers``
    are URLs of providers; while somebody looks, the dashboard counts the triggers' waiting messages there.
    ``store`` is the history of the URL if it is already open, and is left open. The configuration says where
    the journals of other triggers are. ``background=False`` counts parked messages again for each page, for
    tests. After ``stopping`` returns True, pages that watch are released.

    Raises:
        ConfigurationError: the history cannot be opened, or the file cannot be written.
    """
    file, kept_for = access.security_log.opened(), access.security_log.kept_for
    opened = store or open_history(history)
    log = needed_beside(opened, "history", "security log").security_log
    recorder = Recorder(log, file, kept_for=kept_for, background=background)
    operations = Operations.over(
        opened,
        history,
        triggers,
        providers,
        configuration=configuration,
        background=background,
        recorder=recorder,
    )

    def ended(session: Session, why: str) -> None:
        recorder.count(end_of(session, why))

    def refused(connection: HTTPConnection) -> None:
        recorder.count(denial_of(connection, "the host name is not allowed"))

    gate = AccessGate(access, Sessions(access.idle, access.longest, ended=ended), recorder)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncGenerator[None]:
        yield
        await run_in_threadpool(operations.close)
        if store is None:
            drive(opened.close())

    app = Starlette(
        routes=_routes(gate, operations, Live(gate, operations, stopping)),
        middleware=[Middleware(Secured, hosts=access.hosts, https=access.https, refused=refused)],
        lifespan=lifespan,
    )
    app.state.operations, app.state.gate = operations, gate
    return app


def _routes(gate: AccessGate, operations: Operations, live: Live) -> list[BaseRoute]:
    entrance = SignIn(gate, operations.recorder)
    handlers = [
        *((path, "GET", page, role) for path, (page, role) in SHOWN.items()),
        *((path, "POST", page, role) for path, (page, role) in DONE.items()),
        *((operation.path, operation.method, operation.page, operation.role) for operation in OPERATIONS),
    ]
    pages = [
        Route(path, endpoint(page, gate=gate, operations=operations, role=role), methods=[method])
        for path, method, page, role in handlers
    ]
    return [
        *pages,
        Route("/live/overview", live.serve, methods=["GET"]),
        Route("/sign-in", entrance.show, methods=["GET"]),
        Route("/sign-in", entrance.sign_in, methods=["POST"]),
        Route("/metrics", Metrics(gate, operations).serve, methods=["GET"]),
        Route("/livez", alive, methods=["GET"]),
        Route("/readyz", Readiness(operations).serve, methods=["GET"]),
        Mount("/static", StaticFiles(directory=Path(__file__).parent / "static")),
    ]


class Readiness:
    """Answers everybody whether pages can be shown: whether the history answers."""

    def __init__(self, operations: Operations) -> None:
        self._operations = operations

    async def serve(self, _: Request) -> Response:
        """Ask the history, at most once a second."""
        try:
            await run_in_threadpool(self._operations.pulse.read)
        except DoubtlessError:
            return PlainTextResponse("the history does not answer\n", 503)
        return PlainTextResponse("ready\n")


async def alive(_: Request) -> Response:
    """Answer everybody that the dashboard runs."""
    return PlainTextResponse("alive\n")
