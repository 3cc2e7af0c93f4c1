"""Entries of a history as they are shown."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from history.entry import Entry, State


def entry_row(trigger: str, key: bytes, entry: Entry) -> dict[str, Any]:
    """Return the printed form of an entry."""
    return {
        "trigger": trigger,
        "digest": key.hex(),
        "state": state_of(entry),
        "owner": entry.owner,
        "fence": entry.fence,
        "started": entry.started_at,
        "started_about": entry.started_about,
        "expires": entry.expires_at,
        "lease_until": entry.lease_until,
        "lease_alive": entry.lease_alive,
    }


def state_of(entry: Entry) -> str:
    """Return state and outcome in the decision table's words: "COMPLETED ok"."""
    return entry.state.value.upper() + (f" {entry.outcome}" if entry.outcome else "")


def began(row: Mapping[str, Any], moment: Callable[[datetime], str]) -> str:
    """Return state and start of a printed entry: "COMPLETED ok, started at about 12:00"."""
    started = "" if row["state"] == State.STARTED.value.upper() else ", started"
    about = "about " if row["started_about"] else ""
    return f"{row['state']}{started} at {about}{moment(row['started'])}"
