"""The place of an error in the user's code: file, function and line, without values and source text.

An own frame is neither in the standard library, nor in an installed package, nor in doubtless. If the user's
code is an installed package, no frame is own by this rule. Then the package that doubtless called counts.
"""

import sysconfig
from collections.abc import Iterator
from functools import cache, lru_cache
from pathlib import PurePath
from types import FrameType, TracebackType

from history.support.rendering import encodable, traceback_of

#: How many exceptions of a chain are looked through.
MOST_ERRORS = 20

#: How many frames of one traceback are looked through, from its beginning.
MOST_FRAMES = 10_000

#: The longest place, in characters.
LONGEST_PLACE = 300

#: Whether an exception hides the one during whose handling it was raised.
_SUPPRESSED = "__suppress_context__"

#: The packages of doubtless.
OURS = frozenset({"doubtless", "history", "pytest_doubtless", "resolvers", "triggers"})

#: The folders of installed packages.
INSTALLED = frozenset({"site-packages", "dist-packages"})


def place_of(error: BaseException, *, without: tuple[str, ...] = ()) -> str | None:
    """Return the innermost own frame of an exception as ``file:line in function``; None without one.

    The file is relative to the package of its module. An exception comes before its causes. Leading frames
    are left out if the names of their modules begin with one of ``without``. This never raises.
    """
    for cause in _chain(error):
        own = [step for step in _frames(cause) if _is_own(step.tb_frame)]
        if own:
            return _written(own[-1])
    called = [step for step in _frames(error, without) if _is_installed(step.tb_frame)]
    same = [step for step in called if package_of(step.tb_frame) == package_of(called[0].tb_frame)]
    return _written(same[-1]) if same else None


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield an exception and those that caused it, as far as a traceback shows them."""
    seen: list[BaseException] = []
    raised: BaseException | None = error
    while raised is not None and len(seen) < MOST_ERRORS and not any(raised is earlier for earlier in seen):
        seen.append(raised)
        yield raised
        cause, context, hides = (_of(raised, name) for name in ("__cause__", "__context__", _SUPPRESSED))
        following = cause if cause is not None or hides else context
        raised = following if isinstance(following, BaseException) else None


def _of(error: BaseException, attribute: str) -> object:
    # Not getattr: the class of the user may have made a property of it.
    value: object = vars(BaseException)[attribute].__get__(error)
    return value


def _frames(error: BaseException, without: tuple[str, ...] = ()) -> Iterator[TracebackType]:
    """Yield the frames of an exception, the outermost first."""
    step = traceback_of(error, without=without)
    for _ in range(MOST_FRAMES):
        if step is None:
            return
        yield step
        step = step.tb_next


def _is_own(frame: FrameType) -> bool:
    return _has_file(frame) and not _is_of_library(frame.f_code.co_filename) and not is_ours(frame)


def _is_installed(frame: FrameType) -> bool:
    return _has_file(frame) and _is_in_packages(frame.f_code.co_filename) and not is_ours(frame)


def _has_file(frame: FrameType) -> bool:
    """Whether the code is from a file; generated code has a name such as ``<string>``."""
    return not frame.f_code.co_filename.startswith("<")


def is_ours(frame: FrameType) -> bool:
    """Whether the code is of doubtless."""
    return package_of(frame) in OURS


def package_of(frame: FrameType) -> str:
    """Return the first part of the name of a frame's module."""
    return _module(frame).partition(".")[0]


def _module(frame: FrameType) -> str:
    name: object = frame.f_globals.get("__name__")
    return name if type(name) is str else ""


@lru_cache(maxsize=1_000)
def _is_of_library(file: str) -> bool:
    path = PurePath(file)
    return _is_in_packages(file) or any(path.is_relative_to(library) for library in _standard_library())


@lru_cache(maxsize=1_000)
def _is_in_packages(file: str) -> bool:
    return not INSTALLED.isdisjoint(PurePath(file).parts)


@cache
def _standard_library() -> frozenset[str]:
    """Return the folders of the standard library, of the interpreter and of its virtual environment."""
    paths = sysconfig.get_paths()
    return frozenset({paths["stdlib"], paths["platstdlib"], str(PurePath(sysconfig.__file__).parent)})


def _written(step: TracebackType) -> str:
    frame = step.tb_frame
    code = frame.f_code
    file = _file(code.co_filename, _module(frame))
    return encodable(f"{file}:{step.tb_lineno} in {code.co_qualname}")[:LONGEST_PLACE]


def _file(file: str, module: str) -> str:
    """Return a file relative to its package: ``shop/orders.py`` for the module ``shop.orders``."""
    path, parts = PurePath(file), module.split(".")
    whole = path.parent if path.stem == "__init__" else path.with_suffix("")
    if whole.parts[-len(parts) :] != tuple(parts):
        return path.name
    return PurePath(*path.parts[-len(parts) - (whole == path.parent) :]).as_posix()
