"""Effects noted in a file, one line each, with nothing in between that could hide a second one."""

import os
from collections import Counter
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Ledger:
    """A file to which any number of threads and processes append lines.

    A line is one write to a file opened for appending: it stands there whole or not at all, whenever its
    process is killed, and never in the middle of another's.
    """

    file: Path

    def note(self, *words: str) -> None:
        """Append a line of words, none of which may hold a tab or a line feed."""
        descriptor = os.open(self.file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        try:
            os.write(descriptor, ("\t".join(words) + "\n").encode())
        finally:
            os.close(descriptor)

    def lines(self) -> list[tuple[str, ...]]:
        """Return what was noted, in order."""
        if not self.file.exists():
            return []
        # Not splitlines(), to which a form feed in a uuid is the end of a line.
        return [tuple(line.split("\t")) for line in self.file.read_text(encoding="utf-8").split("\n")[:-1]]

    def count(self) -> int:
        """Count the lines."""
        return len(self.lines())

    def counts(self) -> Counter[str]:
        """Count the lines by their first word."""
        return Counter(words[0] for words in self.lines())
