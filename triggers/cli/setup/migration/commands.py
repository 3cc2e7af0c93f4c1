"""The commands of ``doubtless migrate``, and the files that they write."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import typer

from history.errors import ConfigurationError
from triggers.cli.patchbay import PLACES_OPTION, places, to_toml
from triggers.cli.setup.init import write_new
from triggers.cli.setup.migration.atg import (
    COMPONENTS,
    WIRING,
    components_of,
    noted,
    read_wiring,
    report_of_wiring,
)
from triggers.cli.setup.migration.jms_triggers import Exported, find_triggers
from triggers.cli.setup.migration.mapping import (
    Fit,
    Mapped,
    MappedRule,
    Names,
    mapped,
    parameters_of,
    quoted,
)
from triggers.cli.setup.migration.reporting import left_out_table, notes_table, plain
from triggers.cli.setup.migration.statements import links_of, read_statements, report_of
from triggers.cli.shared.arguments import reading
from triggers.cli.shared.general_options import CommandGroup
from triggers.cli.shared.output import CliState

app = CommandGroup(no_args_is_help=True, help="Make triggers from the definitions of another system.")

#: The module with the services, and the file of the configuration.
SERVICES, CONFIGURATION, REPORT = "jms_services", "doubtless.toml", "report.md"

_TO: Any = typer.Option(Path(), "--to", "--into", help="The folder to write to. By default: this folder.")

#: The settings of links.
LINKS: Final = "links.toml"

_MODULE: Final = '''"""Triggers of the connection alias {alias}, from its JMS triggers.

Run them with: doubtless run {module}
"""

{imports}

import {services}
'''

_SERVICES: Final = '''"""The services of the triggers. Write each of them. Until then, messages are parked."""

{imports}


def _missing(service: str) -> NotImplementedError:
    return NotImplementedError(f"{{service}} is not written yet")
'''

_CONFIGURATION: Final = """\
# Where messages come from, and what remembers them. Set both variables, or write URLs.
provider = "env:JMS_PROVIDER"
history = "env:DOCUMENT_HISTORY"
"""


@app.command()
def webmethods(
    context: typer.Context,
    folder: Path = typer.Argument(
        metavar="DIR", help="A folder with packages of Integration Server, unpacked."
    ),
    to: Path = _TO,
) -> None:
    """Make a module of triggers from the JMS triggers in exported packages (node.ndf files).

    The command writes one module for each connection alias, the services to be written, doubtless.toml, and
    report.md. The report lists properties that are the same here, safer, to be checked or missing.
    The command overwrites no file. Connection aliases are read from jms.cnf, if DIR has it.
    """
    state = CliState.of(context)
    packages = find_triggers(folder)
    triggers = mapped(packages)
    files = write_new(to, files_of(triggers, packages))
    counts = Counter(note.kind for made in triggers for note in made.notes)
    row = {
        "triggers": len(triggers),
        **{str(fit): counts[fit] for fit in Fit},
        "left out": len(packages.left_out),
    }
    state.show("migrated", list(row), [row])
    state.note(f"written: {', '.join(str(file) for file in files)}; read {to / REPORT} first")


@app.command()
def sqlremote(
    context: typer.Context,
    file: Path = typer.Argument(metavar="FILE", help="A file with the SQL statements of one database."),
    to: Path = _TO,
) -> None:
    """Make the settings of links from the statements of SQL Remote.

    The command reads CREATE PUBLICATION, CREATE SUBSCRIPTION, CREATE REMOTE TYPE, GRANT PUBLISH, GRANT REMOTE
    and GRANT CONSOLIDATE. It writes links.toml and report.md, and executes nothing. The report lists what is
    the same here, to be checked or missing. The command overwrites no file.
    """
    state = CliState.of(context)
    with reading(file) as source:
        raw = source.read()
    try:
        statements = read_statements(raw.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise ConfigurationError("FILE", f"{file}: is not UTF-8: {error}", "save it as UTF-8") from error
    if not (statements.publications or statements.remotes or statements.publisher or statements.addresses):
        problem = f"{file} holds no statement of SQL Remote"
        raise ConfigurationError("FILE", problem, "give a file with CREATE PUBLICATION and GRANT REMOTE")
    files = write_new(to, {LINKS: links_of(statements), REPORT: report_of(statements)})
    row = {
        "publications": len(statements.publications),
        "remotes": len(statements.remotes),
        "left out": len(statements.left_out),
    }
    state.show("migrated", list(row), [row])
    state.note(f"written: {', '.join(str(file) for file in files)}; read {to / REPORT} first")


@app.command()
def atg(
    context: typer.Context,
    files: list[Path] = typer.Argument(
        metavar="FILES",
        help="Files dynamoMessagingSystem.xml of ATG, in the order of the configuration path.",
    ),
    provider: list[str] | None = PLACES_OPTION,
    to: Path = _TO,
) -> None:
    """Make a wiring and its components from XML of ATG's Patch Bay.

    The command writes patchbay.toml, jms_components.py with a stub for each component, and report.md. The
    report lists what is the same here, safer, to be checked or missing. The command overwrites no file.
    """
    state = CliState.of(context)
    wiring = read_wiring(files, places(provider))
    files_here = {WIRING: to_toml(wiring.raw), f"{COMPONENTS}.py": components_of(wiring)}
    report = report_of_wiring(wiring)
    written = write_new(to, {**files_here, REPORT: report}, private=[WIRING])  # URLs may hold passwords
    counts = Counter(note.kind for _, notes in noted(wiring) for note in notes)
    row = {"components": len(wiring.file.components), **{str(fit): counts[fit] for fit in Fit}}
    state.show("migrated", list(row), [row])
    state.note(f"written: {', '.join(str(file) for file in written)}; read {to / REPORT} first")


def files_of(triggers: Sequence[Mapped], packages: Exported) -> Mapping[str, str]:
    """Return the files by their names."""
    services, modules = Names(), Names()
    by_alias: dict[str, list[Mapped]] = {}
    for made in triggers:
        by_alias.setdefault(made.source.alias, []).append(made)
    files = {
        f"{modules.of(f'triggers of {alias}')}.py": _module(
            alias, modules.of(f"triggers of {alias}"), mine, services
        )
        for alias, mine in sorted(by_alias.items())
    }
    return {
        **files,
        f"{SERVICES}.py": _services(triggers, services),
        CONFIGURATION: _CONFIGURATION,
        REPORT: _report(triggers, packages),
    }


def _module(alias: str, module: str, triggers: Sequence[Mapped], services: Names) -> str:
    functions = Names()
    parts = ["\n".join(_trigger(made, functions, services)).strip("\n") for made in triggers]
    text = "\n\n\n".join(parts) + "\n"
    used = [name for name in ("Joined", "Message", "Retry") if re.search(rf"\b{name}\b", text)]
    imports = ["from datetime import timedelta\n"] if "timedelta(" in text else []
    imports.append(f"from doubtless import {', '.join([*used, 'trigger'])}")
    head = _MODULE.format(alias=plain(alias), module=module, imports="\n".join(imports), services=SERVICES)
    return f"{head}\n\n{text}"


def _trigger(made: Mapped, functions: Names, services: Names) -> Iterator[str]:
    name, (parameter, annotation) = functions.of(made.source.name), parameters_of(made)
    last = made.rules[-1]
    yield "@trigger("
    yield f"    {_destinations(made)},"
    for option, value in made.options.items():
        yield f"    {option}={value},"
    for option, service in (("resolver", made.resolver), ("monitor", made.monitor)):
        if service is not None:
            yield f"    {option}={SERVICES}.{services.of(service)},"
    yield from (f"    {line}," for line in _filter(last))
    yield ")"
    yield f"def {name}({parameter}: {annotation}) -> None:"
    yield f'    """{plain(made.source.name)}: {plain(last.service)}."""'
    yield f"    {SERVICES}.{services.of(last.service)}({parameter})"
    yield "\n"
    for number, rule in enumerate(made.rules[:-1], start=1):
        route = services.of(rule.service)
        yield f"@{name}.route("
        yield f"    {quoted(f'{number} {route}')},"
        yield from (f"    {line}," for line in _filter(rule))
        yield ")"
        function = functions.of(f"{made.source.name}:{number}:{rule.service}")
        yield f"def {function}({parameter}: {annotation}) -> None:"
        yield f'    """{plain(rule.service)}."""'
        yield f"    {SERVICES}.{route}({parameter})"
        yield "\n"


def _destinations(made: Mapped) -> str:
    names = [quoted(name) for name in made.destinations]
    return names[0] if len(names) == 1 else f"[{', '.join(names)}]"


def _filter(rule: MappedRule) -> Iterator[str]:
    if rule.filter is not None:
        yield f"filter={quoted(rule.filter)}"
    elif rule.original is not None:
        yield f"filter={SERVICES}.untranslated({quoted(rule.original)})"


def _services(triggers: Sequence[Mapped], services: Names) -> str:
    wanted: dict[str, tuple[str, str]] = {}
    for made in triggers:
        for rule in made.rules:
            wanted.setdefault(rule.service, parameters_of(made))
    text = [_service(service, services.of(service), *wanted[service]) for service in wanted]
    for template, asked in (
        (_RESOLVER, [made.resolver for made in triggers]),
        (_MONITOR, [made.monitor for made in triggers]),
    ):
        some = [service for service in dict.fromkeys(asked) if service is not None]
        text += [template.format(name=services.of(service), service=plain(service)) for service in some]
    if any(rule.original is not None for made in triggers for rule in made.rules):
        text.append(_UNTRANSLATED)
    body = "\n\n".join(part.strip("\n") + "\n" for part in text)
    names = [name for name in ("Joined", "Message", "Resolution") if name in body]
    imports = f"from doubtless import {', '.join(names)}"
    if "Callable" in body:
        imports = f"from collections.abc import Callable\n\n{imports}"
    return f"{_SERVICES.format(imports=imports)}\n\n{body}"


def _service(service: str, name: str, parameter: str, annotation: str) -> str:
    return f'''
def {name}({parameter}: {annotation}) -> None:
    """{plain(service)}."""
    raise _missing({quoted(service)})
'''


_RESOLVER: Final = '''
def {name}(uuid: str, trigger_name: str, message: Message) -> Resolution:
    """{service}: has this message been processed? Until it is written, nobody knows."""
    return Resolution.IN_DOUBT
'''

_MONITOR: Final = '''
def {name}() -> bool:
    """{service}: may a suspended trigger go on? Until it is written, it goes on."""
    return True
'''

_UNTRANSLATED: Final = '''
def untranslated(text: str) -> Callable[[Message], bool]:
    """Return a filter that parks each message until its condition is written."""

    def decide(_: Message) -> bool:
        raise NotImplementedError(f"the filter {text} is not translated yet")

    return decide
'''


def _report(triggers: Sequence[Mapped], packages: Exported) -> str:
    lines = ["# JMS triggers", "", f"{len(triggers)} triggers are migrated.", ""]
    lines += left_out_table("file", packages.left_out)
    for made in triggers:
        lines += [f"## {made.source.name}", "", f"From `{made.source.file}`.", "", *notes_table(made.notes)]
    return "\n".join(lines)
