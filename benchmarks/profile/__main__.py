"""``python -m benchmarks.profile``: where the time of one message goes."""

import typer

from benchmarks.profile.message import main

typer.run(main)
