"""Files that a command writes once: all of them or none, and never over one that is there."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from history.errors import ConfigurationError


def write_new(
    folder: Path, texts: Mapping[str, str], *, others: Collection[Path] = (), argument: str = "--to"
) -> Sequence[Path]:
    """Write files into a folder, which is made; ``others`` may not be there either. Return their paths.

    Raises:
        ConfigurationError: one is there already, or the folder cannot be written to; naming ``argument``.
    """
    files = {folder / name: text for name, text in texts.items()}
    try:
        there = sorted(str(file) for file in (*files, *others) if file.exists())
        if there:
            problem = f"{', '.join(there)} {'is' if len(there) == 1 else 'are'} there already"
            raise ConfigurationError(argument, problem, "name an empty folder")
        folder.mkdir(parents=True, exist_ok=True)
        for file, text in files.items():
            with file.open("x", encoding="utf-8") as new:
                new.write(text)
    except OSError as error:
        problem = f"{error.filename or folder}: {error.strerror}"
        raise ConfigurationError(argument, problem, "name one that can be written") from error
    return list(files)
