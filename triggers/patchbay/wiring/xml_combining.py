"""Several files of ATG as one: a component may be spread over files, and may lack ports.

ATG joins the files on its configuration path: the ports of a component that several of them name, and the
destinations of a port. A part that is still incomplete then is left out and reported.
"""

from collections.abc import Sequence
from typing import Any

from triggers.patchbay.wiring.xml_reader import Converted

#: The kinds of components, and the kinds of ports with what a port leads to.
_KINDS = ("source", "sink", "filter")
_PORTS = {"input": "from", "output": "to", "redelivery_port": "to"}


def combined(files: Sequence[Converted]) -> Sequence[Converted]:
    """Return the files with each component whole, in the first file that names it."""
    seen: dict[tuple[str, str], dict[str, Any]] = {}
    return [_completed(file) for file in [_gathered(file, seen) for file in files]]


def _gathered(file: Converted, seen: dict[tuple[str, str], dict[str, Any]]) -> Converted:
    """Keep the components that no earlier file names; add this file's parts of others there."""
    raw = dict(file.raw)
    for kind in _KINDS:
        kept: list[dict[str, Any]] = []
        for component in raw.pop(kind, ()):
            key = (kind, component["name"])
            if key not in seen:
                seen[key] = {"name": component["name"], "component": component["component"]}
                kept.append(seen[key])
            _add(seen[key], component)
        raw[kind] = kept
    return Converted(raw, file.notes, file.named, file.lines)


def _add(whole: dict[str, Any], more: dict[str, Any]) -> None:
    for ports, leads in _PORTS.items():
        for port in more.get(ports, ()):
            known = whole.setdefault(ports, [])
            same = next((other for other in known if other["port"] == port["port"]), None)
            if same is None:
                known.append(same := {"port": port["port"], leads: []})
            # A destination in two files counts once: otherwise a second copy would be sent.
            same[leads] += [entry for entry in port[leads] if entry not in same[leads]]


def _completed(file: Converted) -> Converted:
    """Leave out ports that lead nowhere, and components without ports."""
    raw, notes = dict(file.raw), list(file.notes)
    components: dict[str, list[dict[str, Any]]] = {kind: [] for kind in _KINDS}
    for kind in _KINDS:
        for component in raw.pop(kind):
            at = file.lines.get(component["name"], "")
            notes += _drop_empty_ports(component, at)
            become = _kind_of(kind, component)
            if become is None:
                notes.append(
                    f"{at}: component {component['name']} left out: it has no port that leads anywhere"
                )
                continue
            if become != kind:
                notes.append(f"{at}: filter {component['name']} taken as a {become}: it has no other ports")
            components[become].append(component)
    kept = {kind: found for kind, found in components.items() if found}
    message = {"message": raw.pop("message")} if "message" in raw else {}
    return Converted(raw | kept | message, notes, file.named, file.lines)


def _drop_empty_ports(component: dict[str, Any], at: str) -> Sequence[str]:
    notes: list[str] = []
    for ports, leads in _PORTS.items():
        for port in component.pop(ports, ()):
            if port[leads]:
                component.setdefault(ports, []).append(port)
            else:
                notes.append(
                    f"{at}: port {port['port']} of {component['name']} left out: it has no destination"
                )
    return notes


def _kind_of(kind: str, component: dict[str, Any]) -> str | None:
    """Return the kind of a component by its ports; None if it has no relevant ports."""
    has_input, has_output = "input" in component, "output" in component
    match kind:
        case "source":
            return "source" if has_output else None
        case "sink":
            return "sink" if has_input else None
        case _ if has_input:
            return "filter" if has_output else "sink"
        case _:
            return "source" if has_output else None
