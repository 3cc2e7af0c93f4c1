"""Whether the connection to a server is encrypted, as far as its URL says."""

from collections.abc import Iterator

from history.support.tls import open_line
from triggers.cli.checks.findings import CheckFinding, Level


def of_line(of: str, url: str) -> Iterator[CheckFinding]:
    """Warn of passwords and messages that cross a network unencrypted."""
    line = open_line(url)
    if line is not None:
        what = "the password and all messages" if line.has_password else "all messages"
        yield CheckFinding(of, Level.WARNING, f"{what} cross the network in clear", line.remedy)
