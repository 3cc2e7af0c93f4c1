"""The table that shows the profile of one message."""

from collections.abc import Mapping

from rich.table import Table


def shares_of(title: str, parts: Mapping[str, float]) -> Table:
    """Return a table of parts, each in microseconds, with their shares of the sum."""
    whole = sum(parts.values())
    table = Table(title=title)
    table.add_column("part", ratio=1)
    table.add_column("us", justify="right", no_wrap=True)
    table.add_column("share", justify="right", no_wrap=True)
    for part, microseconds in parts.items():
        table.add_row(part, f"{microseconds:.0f}", f"{microseconds / whole:.0%}")
    return table
