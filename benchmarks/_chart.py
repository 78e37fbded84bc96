"""A figure as a picture: one or several panels of lines, drawn to NAME.png in the folder of figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import FuncFormatter, LogFormatter

from benchmarks._report import folder

Line = tuple[Sequence[float], Sequence[float]]


@dataclass(frozen=True)
class Panel:
    """Lines by name, over a common x."""

    title: str
    x: str
    y: str
    lines: Mapping[str, Line]
    scale: Literal["linear", "log", "log x", "log y"] = "linear"
    marks: Sequence[float] = field(default_factory=tuple)  # vertical lines


def draw(name: str, panels: Sequence[Panel]) -> None:
    canvas = Canvas(figsize=(9.5, 4.2 * len(panels)), layout="constrained")
    FigureCanvasAgg(canvas)
    for axes, panel in zip(canvas.subplots(len(panels), 1, squeeze=False)[:, 0], panels, strict=True):
        for label, (x, y) in panel.lines.items():
            axes.plot(x, y, marker="." if len(x) < 60 else None, label=label)
        for at in panel.marks:
            axes.axvline(at, color="#999999", linestyle=":", linewidth=1)
        if panel.scale in ("log", "log x"):
            axes.set_xscale("log")
        if panel.scale in ("log", "log y"):
            axes.set_yscale("log")
        else:
            axes.set_ylim(bottom=0)
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter(FuncFormatter(_plain))
            if axis.get_scale() == "log":
                axis.set_minor_formatter(_PlainLog())
        axes.set_xlabel(panel.x)
        axes.set_ylabel(panel.y)
        axes.set_title(panel.title, loc="left")
        axes.grid(True, color="#e6e6e6")
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False, loc="center left", bbox_to_anchor=(1.0, 0.5))
    canvas.savefig(folder() / f"{name}.png", dpi=110)


def _plain(value: float, _: int | None = None) -> str:
    return f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.0f}"


class _PlainLog(LogFormatter):
    """Labels as many of the small marks as it does itself: several where less than a decade is in sight."""

    def __call__(self, x: float, pos: int | None = None) -> str:
        return _plain(x) if super().__call__(x, pos) else ""
