"""From a URL to a carrier."""

from pathlib import Path
from urllib.parse import unquote, urlsplit

from history.errors import ConfigurationError
from triggers.providers.sqlremote.carriers.carrier import Carrier
from triggers.providers.sqlremote.carriers.directory import DirectoryCarrier

#: What :func:`open_carrier` understands.
CARRIER_URLS = (
    "file:///folder, sqlite:///file.db, postgresql://user@host/database, sqljms+sqlite:///file.db, "
    "sqljms+postgresql://user@host/database, or another provider's URL"
)


def open_carrier(url: str, *, name: str, largest: int) -> Carrier:
    """Open the carrier at ``url``; ``name`` is this agent's, ``largest`` the bytes of a message at most.

    Raises:
        ConfigurationError: the URL is for something else, or (MissingExtraError) a driver is missing.
    """
    parts = urlsplit(url)
    match parts.scheme.partition("+")[0]:
        case "file":
            if parts.netloc not in {"", "localhost"} or not parts.path:
                raise ConfigurationError("carrier", f"{url!r} names no folder here", "write file:///folder")
            return DirectoryCarrier(Path(unquote(parts.path)), largest=largest)
        case "sqlite" | "postgresql" | "postgres":
            from triggers.providers.sqlremote.carriers.table import (  # noqa: PLC0415  (a driver, when asked for)
                TableCarrier,
            )

            return TableCarrier.from_url(url)
        case _:
            from triggers.providers.opening import open_provider  # noqa: PLC0415  (it opens links, too)
            from triggers.providers.sqlremote.carriers.over_provider import (  # noqa: PLC0415  (as above)
                ProviderCarrier,
            )

            # Without that word, the URL of a database is a table of its own.
            return ProviderCarrier(open_provider(url.removeprefix("sqljms+")), name=name)
