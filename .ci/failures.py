"""Print the names of the tests that failed, one a line, of what pytest has printed: ``failures.py FILE``."""

import re
import sys
from pathlib import Path

#: Where pytest lists what failed, and how such a line begins.
SUMMARY, LINE = "= short test summary info =", re.compile(r"(?:FAILED|ERROR) (\S.*)")

#: The group of a distributed test: "path::test[case]@group".
GROUP = re.compile(r"@[\w-]+$")


def failures(printed: str) -> list[str]:
    """Return the names, each once."""
    _, _, summary = printed.rpartition(SUMMARY)
    named = (match[1].partition(" - ")[0] for match in map(LINE.match, summary.splitlines()) if match)
    return list(dict.fromkeys(GROUP.sub("", name) for name in named))


if __name__ == "__main__":
    text = Path(sys.argv[1]).read_text(encoding="utf-8", errors="replace")
    sys.stdout.writelines(f"{name}\n" for name in failures(text))
