"""``doubtless dashboard``: serve it until a signal comes."""

import errno
import socket
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from functools import partial
from ipaddress import ip_address
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import typer

from history.beside.security import KEPT_FOR
from history.errors import ConfigurationError, MissingExtraError
from triggers.cli.shared.configured import configuration_of
from triggers.cli.shared.embedded import FILE, URL, history_or_file
from triggers.cli.shared.general_options import with_general_options
from triggers.cli.shared.loading import collect
from triggers.cli.shared.options import HISTORY_OPTION, opened
from triggers.cli.shared.output import CliState
from triggers.configuration import Configuration
from triggers.consumer.loaded import keep_what_is_loaded
from triggers.consumer.options import AnyTrigger
from triggers.dashboard.access.roles import Role
from triggers.dashboard.access.settings import Access, ProxyHeader, Token, TokenFile
from triggers.operations.looking import refuse_absent_file
from triggers.security.recorder import SecurityLogging

try:
    import jinja2 as jinja2  # noqa: PLC0414  (the pages need it, and say so here)
    import starlette as starlette  # noqa: PLC0414  (as above)
    import uvicorn
except ModuleNotFoundError as missing:
    raise MissingExtraError("doubtless dashboard", extra="dashboard", package=missing.name or "") from missing

#: Where it listens by default: only this machine reaches that.
HOST, PORT = "127.0.0.1", 8378

#: The hosts that only this machine reaches.
LOOPBACK = {"127.0.0.1", "::1", "localhost"}

_PROVIDERS: Any = typer.Option(
    None,
    "--provider",
    envvar="DOUBTLESS_PROVIDER",
    help="A provider. The dashboard shows how many messages wait there for the triggers. May be repeated.",
)
_TOKENS: Any = typer.Option(
    None, help="A file with a name, a role and a secret on each line. Only you may read it."
)
_USER_HEADER: Any = typer.Option(
    None, help="The header in which a reverse proxy gives the name of the signed-in user."
)
_ROLE_HEADER: Any = typer.Option(None, help="The header in which the proxy gives the role of this user.")
_ROLE: Any = typer.Option("viewer", help="The role if the proxy gives none: viewer, operator or admin.")
_ADDRESSES: Any = typer.Option(
    None,
    help="An address or network of the proxy. Headers from elsewhere are ignored. May be repeated. "
    "By default: this machine.",
)


_SECURITY_LOG: Any = typer.Option(
    None, help="A file that also gets the security log: one JSON object a line. Only you may read it."
)


@with_general_options
def dashboard(
    context: typer.Context,
    modules: list[str] | None = typer.Argument(
        None, metavar="[MODULE]...", help="Modules with the triggers that run parked messages."
    ),
    history: str | None = HISTORY_OPTION,
    provider: list[str] | None = _PROVIDERS,
    host: str = typer.Option(HOST, help="The address to listen on."),
    port: int = typer.Option(PORT, min=0, max=65535, help="The port to listen on. 0: a free port."),
    tokens: Path | None = _TOKENS,
    proxy_user_header: str | None = _USER_HEADER,
    proxy_role_header: str | None = _ROLE_HEADER,
    proxy_role: str = _ROLE,
    proxy_address: list[str] | None = _ADDRESSES,
    allowed_host: list[str] | None = typer.Option(
        None, help="A host name that browsers use for it, such as the proxy's. May be repeated."
    ),
    https: bool = typer.Option(False, "--https", help="Browsers connect over TLS, through a proxy."),
    bodies: str = typer.Option(
        "operator",
        help="The lowest role that sees bodies, headers and texts of errors: viewer, operator or admin.",
    ),
    idle: float = typer.Option(30, min=1, help="A session ends after this many minutes without a request."),
    security_log: Path | None = _SECURITY_LOG,
    security_log_days: int = typer.Option(
        KEPT_FOR.days, min=1, max=36_500, help="For how many days the history keeps the security log."
    ),
) -> None:
    """Serve web pages that show what happens and what is parked, and let people decide.

    Only this machine can reach it, unless you give --host. Without --tokens or a proxy, it creates a token
    for an administrator, and prints an address that signs you in with this token.
    """
    state = CliState.of(context)
    proxy = _proxy(proxy_user_header, proxy_role_header, proxy_role, proxy_address or [])
    drawn = None if tokens is not None or proxy is not None else _draw(host)
    access = Access(
        tokens=[drawn] if drawn is not None else [] if tokens is None else TokenFile(tokens),
        proxy=proxy,
        idle=timedelta(minutes=idle),
        bodies=Role.named(bodies, "--bodies"),
        hosts=frozenset({*LOOPBACK, *map(_host_named, (host, *(allowed_host or ())))}),
        https=https,
        security_log=SecurityLogging(file=security_log, kept_for=timedelta(days=security_log_days)),
    )
    configuration = configuration_of(state)
    triggers = [
        trigger
        for module in modules or ()
        for trigger in collect(
            module, configuration=configuration, guards=True, tasks=True, complete=len(modules or ()) == 1
        )
    ]
    listening = _listen(host, port)
    with listening:
        say = partial(_say, state, listening, drawn)
        history_url = history_or_file(history, state)
        urls = _providers(provider, history)
        _serve(history_url, access, triggers, urls, listening, say, configuration)


def serve_until_stopped(
    state: CliState, history: str, triggers: list[AnyTrigger], providers: list[str]
) -> None:
    """Serve it to the user who started this process, over a history and providers, at a free port."""
    drawn = _draw(HOST)
    with _listen(HOST, 0) as listening, suppress(typer.Exit):
        say = partial(_say, state, listening, drawn)
        _serve(history, Access(tokens=[drawn]), triggers, providers, listening, say)


def _proxy(
    user_header: str | None, role_header: str | None, role: str, addresses: list[str]
) -> ProxyHeader | None:
    """Return how a reverse proxy names the user; None if no header of it was given.

    Raises:
        ConfigurationError: another option of a proxy was given, or the role is unknown.
    """
    if user_header is not None:
        return ProxyHeader(
            user_header=user_header,
            role_header=role_header,
            role=Role.named(role, "--proxy-role"),
            addresses=frozenset(addresses or LOOPBACK),
        )
    if role_header is None and not addresses:
        return None
    option = "--proxy-address" if role_header is None else "--proxy-role-header"
    raise ConfigurationError(
        "--proxy-user-header",
        f"is missing, and {option} does nothing without it",
        "say in which header the proxy names who has signed in, or leave the other out",
    )


def _host_named(text: str) -> str:
    """Return a host name as the requests of browsers have it: in lower case, without scheme and port.

    Raises:
        ConfigurationError: the text names no host.
    """
    with suppress(ValueError):
        return str(ip_address(text))
    with suppress(ValueError):
        if name := urlsplit(text if "//" in text else f"//{text}").hostname:
            return name
    raise ConfigurationError("--allowed-host", f"{text} names no host", "write one such as desk.example.com")


def _draw(host: str) -> Token:
    if host not in LOOPBACK:
        problem = f"it is missing, and {host} is reached from elsewhere"
        raise ConfigurationError("--tokens", problem, "give tokens, or --proxy-user-header")
    return Token.drawn("administrator", Role.ADMIN)


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        socket.getaddrinfo(host, port)
    except (OSError, UnicodeError) as error:
        problem = f"{host} is not an address of this machine"
        raise ConfigurationError("--host", problem, "choose one") from error
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        setting = "--host" if error.errno == errno.EADDRNOTAVAIL else "--port"
        raise ConfigurationError(setting, f"{host}, {port}: {error.strerror}", "choose another") from error


def _say(state: CliState, listening: socket.socket, drawn: Token | None) -> None:
    host, port = listening.getsockname()[:2]
    address = f"http://{f'[{host}]' if ':' in host else host}:{port}/"
    signing_in = f"{address}sign-in#{drawn.secret}" if drawn is not None else address
    state.report({"url": signing_in}, f"the dashboard is at {signing_in}")


def _providers(named: list[str] | str | None, history: str | None) -> list[str]:
    """Return the URLs of the named providers; a configuration has them in one text.

    Raises:
        ConfigurationError: a provider lives only in another process, or its file is missing.
    """
    urls = named.split() if isinstance(named, str) else [*(named or ())]
    if not urls and history is None and FILE.exists():
        urls = [URL]
    for url in urls:
        if not url.startswith("sqlremote:"):
            refuse_absent_file("--provider", url)
    return urls


def _serve(
    history: str | None,
    access: Access,
    triggers: list[AnyTrigger],
    providers: list[str],
    listening: socket.socket,
    say: Callable[[], None],
    configuration: Configuration | None = None,
) -> None:
    """Open everything, report with ``say`` where it is, and serve it."""
    from triggers.dashboard.access.serving import server_of  # noqa: PLC0415  (as above)
    from triggers.dashboard.app import create_app  # noqa: PLC0415  (loads the pages; --help needs none)
    from triggers.dashboard.rendering import load_templates  # noqa: PLC0415  (as above)

    server: uvicorn.Server | None = None

    def stopping() -> bool:
        return server is not None and server.should_exit

    with opened(history) as store:
        app = create_app(
            history or "",
            access=access,
            triggers=triggers,
            providers=providers,
            store=store,
            configuration=configuration,
            stopping=stopping,
        )
        server = server_of(app)
        load_templates()
        keep_what_is_loaded()
        say()
        try:
            server.run(sockets=[listening])
        except KeyboardInterrupt as stopped:  # which uvicorn raises after it has ended
            raise typer.Exit(130) from stopped
