"""``extracting MOMENT extract|load SETTINGS FILE``: extracts or loads link orders, and dies on the way.

MOMENT is ``inside`` (all is written, nothing committed) or ``behind`` (committed, and nothing done since).
"""

import os
import signal
import sys
from pathlib import Path

from sqlalchemy import Engine, event
from sqlalchemy.pool import Pool

from history.bridge import drive
from triggers.providers.sqlremote.extraction.extract import extract
from triggers.providers.sqlremote.extraction.load import load
from triggers.providers.sqlremote.links import Links


def die_at(moment: str) -> None:
    written = False

    def after(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        nonlocal written
        written = written or statement.startswith("UPDATE sysremoteuser SET doubtless_epoch")
        if written and moment == "inside":
            os.kill(os.getpid(), signal.SIGKILL)

    def given_back(*_: object) -> None:
        if written:
            os.kill(os.getpid(), signal.SIGKILL)

    event.listen(Engine, "after_cursor_execute", after)
    event.listen(Pool, "checkin", given_back)


def main() -> None:
    moment, what, settings, file = sys.argv[1:]
    links = Links.from_file(Path(settings))
    die_at(moment)
    drive((extract if what == "extract" else load)(links, "orders", Path(file)))


if __name__ == "__main__":
    main()
