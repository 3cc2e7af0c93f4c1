"""Dying between two lines of a service: a trace of the functions in the service's own file."""

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType
from typing import Any

#: How many lines of one call are points; a loop would have far too many.
MOST_LINES = 40


@contextmanager
def traced(file: str, come_by: Callable[[str], None]) -> Generator[None]:
    """Call ``come_by`` before each line that runs in functions of a file, while this is entered."""
    left = MOST_LINES

    def trace_line(frame: FrameType, event: str, arg: Any) -> Any:
        nonlocal left
        del arg
        if event == "line" and left > 0:
            left -= 1
            come_by(f"line {frame.f_lineno} of {frame.f_code.co_name}")
        return trace_line

    def trace_call(frame: FrameType, event: str, arg: Any) -> Any:
        del event, arg
        return trace_line if frame.f_code.co_filename == file else None

    before = sys.gettrace()
    sys.settrace(trace_call)
    try:
        yield
    finally:
        sys.settrace(before)
