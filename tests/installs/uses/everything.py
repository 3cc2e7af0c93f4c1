"""Import every module of the packages; print, as JSON, the modules that failed, and their errors."""

import importlib
import json
import pkgutil
import sys

import doubtless
import history
import resolvers
import triggers


def refused() -> dict[str, list[str]]:
    """Return the class and the text of what each import raised."""
    found: dict[str, list[str]] = {}
    for package in (doubtless, history, resolvers, triggers):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}.", onerror=str):
            if module.name.endswith("__main__"):
                continue
            try:
                importlib.import_module(module.name)
            except Exception as error:  # noqa: BLE001  (whatever it is, it is what this is for)
                found[module.name] = [type(error).__name__, str(error)]
    return found


if __name__ == "__main__":
    sys.stdout.write(json.dumps(refused()))
