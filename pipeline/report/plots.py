"""Plots as inline SVG. No pyplot: figures are plain objects here, and equal data gives equal text."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from typing import Any

from pipeline.metrics.estimate import Estimate
from pipeline.results import HEADLINE, Result

_COLOURS = {"seed": "#8a8f98", "tuned": "#0b6e4f", "holistic": "#c26d1a"}
_CONTROL = "#b9bdc4"
_STYLE = {"svg.fonttype": "none", "svg.hashsalt": "gpa-judges", "font.size": 9, "font.family": "sans-serif"}


def intervals(result: Result, metrics: Sequence[str] = ("f1", *HEADLINE)) -> str:
    """Before and after with their intervals, one row a metric."""

    def draw(axes: Any) -> None:
        shown = [name for name in _COLOURS if name in result.sides]
        for row, metric in enumerate(metrics):
            for place, side in enumerate(shown):
                height = row + 0.22 * (place - (len(shown) - 1) / 2)
                _interval(axes, result.sides[side].metrics.get(metric), height, _COLOURS[side])
        for side in shown:
            axes.plot([], [], "o-", color=_COLOURS[side], label=result.names[side])
        axes.set_yticks(range(len(metrics)), [_words(name) for name in metrics])
        axes.set_ylim(len(metrics) - 0.5, -0.5)
        axes.set_xlabel("value on the testset, with 95 % intervals; higher is better, but for false alarms")
        _from_zero_to_one(axes)
        _legend(axes)

    return _svg(draw, (7.2, 3.6))


def curves(result: Result) -> str:
    """Free-response curves, as far as one false alarm per clean trace (and a little beyond)."""

    def draw(axes: Any) -> None:
        for name, side in result.sides.items():
            if side.curve:
                alarms, covered = zip(*side.curve, strict=True)
                control = name in result.controls
                style = {"linestyle": ":", "color": _CONTROL} if control else {"color": _COLOURS.get(name, "black")}
                axes.plot(
                    alarms,
                    covered,
                    marker="." if len(alarms) < 30 else None,
                    label=result.names.get(name, _words(name)),
                    **style,
                )
        axes.axvline(1, color="#dddddd", linewidth=1, zorder=0)
        axes.set_xlim(0, 2)
        axes.set_ylim(0, 1.02)
        axes.set_xlabel("false alarms per clean trace (fewer is better)")
        axes.set_ylabel("share of labels found at their span")
        _legend(axes)

    return _svg(draw, (7.2, 3.6))


def dimensions(result: Result, metric: str) -> str:
    """One metric per dimension, before and after."""
    before, after = (result.sides[side].dimensions for side in ("seed", "tuned"))

    def draw(axes: Any) -> None:
        for row, name in enumerate(before):
            _interval(axes, before[name].get(metric), row - 0.12, _COLOURS["seed"])
            _interval(axes, after.get(name, {}).get(metric), row + 0.12, _COLOURS["tuned"])
        axes.set_yticks(range(len(before)), [_words(name) for name in before])
        axes.set_ylim(len(before) - 0.5, -0.5)
        axes.set_xlabel(f"{metric} on the testset: {result.before} (grey) and tuned (green)")
        _from_zero_to_one(axes)

    return _svg(draw, (7.2, 2.9))


def _interval(axes: Any, estimate: Estimate | None, height: float, colour: str) -> None:
    if estimate is None or estimate.value is None:
        return
    axes.plot([estimate.value], [height], "o", color=colour, markersize=4)
    if estimate.low is not None and estimate.high is not None:
        axes.plot([estimate.low, estimate.high], [height, height], "-", color=colour, linewidth=1.6)


def _from_zero_to_one(axes: Any) -> None:
    """The same axis in every report; longer where an alpha is below 0."""
    axes.set_xlim(min(-0.02, axes.get_xlim()[0] if axes.dataLim.x0 < 0 else 0), 1.02)


def _words(name: str) -> str:
    return name.replace("_", " ")


def _legend(axes: Any) -> None:
    if axes.get_legend_handles_labels()[0]:
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, 1.16), ncols=6, frameon=False, fontsize=8)


def _svg(draw: Callable[[Any], None], size: tuple[float, float]) -> str:
    """An <svg> element without prologue, so that it can stand inside HTML."""
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=size, layout="constrained")
        axes = figure.add_subplot()
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
        draw(axes)
        buffer = io.StringIO()
        FigureCanvasSVG(figure).print_svg(buffer, metadata={"Date": None, "Creator": None})
    text = buffer.getvalue()
    return text[text.index("<svg") :]
