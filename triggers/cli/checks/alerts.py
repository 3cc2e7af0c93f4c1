"""``doubtless alerts``: the rules for Prometheus that this version ships."""

from importlib.resources import files

import typer

from triggers.cli.shared.general_options import with_general_options
from triggers.cli.shared.output import CliState


@with_general_options
def alerts(context: typer.Context) -> None:
    """Print alerts for Prometheus, as YAML for its rule_files.

    docs/how-to/answer-alerts.md says for each alert what to do.
    """
    text = files("triggers.metrics").joinpath("alerts.yml").read_text(encoding="utf-8")
    state = CliState.of(context)
    if state.as_json:
        state.document({"rules": text})
    else:
        typer.echo(text, nl=False)
