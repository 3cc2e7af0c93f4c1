"""Print pip's indexes and certificates as exports for uv, because uv does not read pip's configuration.

Run it with the Python that has this pip: ``eval "$(.venv/bin/python .ci/uv_settings.py)"``.
"""

import ast
import os
import shlex
import subprocess
import sys

#: For each setting of pip: uv's name, and the separator of a list there.
VARIABLES = {
    "index-url": ("UV_DEFAULT_INDEX", " "),
    "extra-index-url": ("UV_INDEX", " "),
    "find-links": ("UV_FIND_LINKS", ","),
    "trusted-host": ("UV_INSECURE_HOST", " "),
    "cert": ("SSL_CERT_FILE", " "),
    "client-cert": ("SSL_CLIENT_CERT", " "),
}

#: The places where pip looks for a setting, the strongest first.
SECTIONS = (":env:", "install", "global")


def main() -> None:
    """Print one export for each setting that pip has, and that uv was not given itself."""
    listing = [sys.executable, "-m", "pip", "config", "list"]
    lines = subprocess.run(listing, capture_output=True, text=True, check=True).stdout.splitlines()
    settings = dict(line.split("=", 1) for line in lines)
    if any(key.endswith(".no-index") for key in settings):
        raise SystemExit("pip's settings forbid every index, and uv has no environment variable for that")
    for name, (variable, separator) in VARIABLES.items():
        found = [settings[key] for section in SECTIONS if (key := f"{section}.{name}") in settings]
        if found and variable not in os.environ:
            print_export(variable, separator.join(str(ast.literal_eval(found[0])).split()))
    # pip takes the best version of all indexes, uv by itself that of the first that has any.
    print_export("UV_INDEX_STRATEGY", "unsafe-best-match")


def print_export(variable: str, value: str) -> None:
    """Print a line that a shell evaluates."""
    sys.stdout.write(f"export {variable}={shlex.quote(value)}\n")


if __name__ == "__main__":
    main()
