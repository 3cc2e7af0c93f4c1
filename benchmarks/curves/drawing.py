"""The curves as a picture."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.curves.measuring import Curve


def draw(curves: Sequence[Curve], file: Path) -> None:
    """Draw each curve into its own frame, with the growing number along the bottom, and save a PNG."""
    from matplotlib.figure import Figure  # noqa: PLC0415  (only the bench extra has it)

    figure: Any = Figure(figsize=(11, 3.2 * ((len(curves) + 1) // 2)), layout="constrained")
    frames = figure.subplots((len(curves) + 1) // 2, 2, squeeze=False).flatten()
    for frame, curve in zip(frames, curves, strict=False):
        sizes, speeds = [size for size, _ in curve.points], [speed for _, speed in curve.points]
        frame.plot(sizes, speeds, marker="o")
        if max(sizes) > 4 * min(sizes):
            frame.set_xscale("log")
        frame.set_ylim(bottom=0)
        frame.set_title(curve.title, fontsize=10)
        frame.set_xlabel(curve.grows)
        frame.set_ylabel("messages/s")
        frame.yaxis.set_major_formatter("{x:,.0f}")
        frame.grid(alpha=0.3)
    for frame in frames[len(curves) :]:
        frame.set_visible(False)
    figure.savefig(file, dpi=90)
