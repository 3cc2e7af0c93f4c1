"""Entries of a history as they are shown."""

from typing import Any

from history.entry import Entry


def entry_row(trigger: str, key: bytes, entry: Entry) -> dict[str, Any]:
    """Return the printed form of an entry."""
    return {
        "trigger": trigger,
        "digest": key.hex(),
        "state": state_of(entry),
        "owner": entry.owner,
        "fence": entry.fence,
        "started": entry.started_at,
        "expires": entry.expires_at,
        "lease_until": entry.lease_until,
        "lease_alive": entry.lease_alive,
    }


def state_of(entry: Entry) -> str:
    """Return state and outcome in the decision table's words: "COMPLETED ok"."""
    return entry.state.value.upper() + (f" {entry.outcome}" if entry.outcome else "")
