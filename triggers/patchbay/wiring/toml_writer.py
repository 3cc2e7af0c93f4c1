"""Write a wiring as TOML: what ``doubtless patchbay convert`` prints."""

from collections.abc import Mapping
from typing import Any

import tomli_w


def to_toml(raw: Mapping[str, Any]) -> str:
    """Return a file's text; reading it again gives the same."""
    return tomli_w.dumps(raw, indent=2)
