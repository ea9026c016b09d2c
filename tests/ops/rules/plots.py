"""Plots of functions of one variable with their derivatives; those of docs/rules.md, section by section."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

import adcompiler as adc
from adcompiler.ops.rules.primitive import Primitive
from adcompiler.ops.table import SECTIONS

DOCS = Path(__file__).parents[3] / "docs"

# Functions of several parameters, as functions of x; others of several parameters have no plot.
FIXED = {
    "power": "1.5",
    "minimum": "0.5",
    "maximum": "0.5",
    "clip": "-1, 1",
    "hypot": "0.5",
    "leaky_relu": "0.2",
    "elu": "1",
    "floor_divide": "1",
    "remainder": "1",
    "fmod": "1",
    "atan2": "1",
    "logaddexp": "0",
    "xlogy": "2",
}
FIRST = {"jn": "2", "iv": "2", "ive": "2", "polygamma": "2"}  # those whose last parameter is x
WITHOUT = ("strict", "deg2rad", "rad2deg")
SECTIONS_SHOWN = [title for title in SECTIONS if not title.startswith(("Comparisons", "Bits"))]

TOTAL, HEIGHT, TITLE, SPACE = 720, 112, 20, 16  # pixels: all plots of a row, a plot, the line above it, gaps
POINTS, MOST = 242, 5.0  # an even number of points, so that 0 is none; values beyond MOST are cut off
BLUE, ORANGE, GREY, LINE = "#0173b2", "#de8f05", "#57606a", "#d8dee4"


def plotted(entry: Primitive) -> str | None:
    """The call to plot, a text with x; None for functions without a plot."""
    if entry.name in WITHOUT:
        return None
    if entry.name in FIXED:
        return f"{entry.name}(x, {FIXED[entry.name]})"
    if entry.name in FIRST:
        return f"{entry.name}({FIRST[entry.name]}, x)"
    return f"{entry.name}(x)" if len(entry.params) == 1 else None


def calls(title: str) -> list[tuple[Primitive, str]]:
    return [(entry, call) for entry in SECTIONS[title] if (call := plotted(entry))]


def interval(entry: Primitive) -> tuple[float, float]:
    """Where to plot: the domain of the variable, a little wider, or -3 to 3."""
    ends = [end for part in entry.domain[-1 if entry.name in FIRST else 0] for end in part]
    least, most = min(ends), max(ends)
    if (least, most) == (-2.0, 2.0) or entry in SECTIONS["Rounding and remainders"]:
        return -3.0, 3.0
    if entry.name in ("trigamma", "polygamma"):
        return 0.0, most  # negative numbers have poles too close to each other
    inside = {0.9: 1.0, -0.9: -1.0, 0.1: 0.0, 1.1: 1.0, 1.9: 2.0, -1.9: -2.0, 2.0: 3.0}
    return inside.get(least, least), inside.get(most, most)


def curve(x: np.ndarray, y: np.ndarray, slope: np.ndarray, low: float, high: float) -> Iterator[list[int]]:
    """The numbers of the points of each unbroken part: broken where it jumps or leaves the plot."""
    part: list[int] = []
    for i, value in enumerate(y):
        rise = (slope[i] + slope[i - 1]) / 2 * (x[i] - x[i - 1])
        jumps = part and abs(value - y[i - 1] - rise) > 0.06 * (high - low)
        if jumps or not low <= value <= high:
            yield part
            part = []
        if low <= value <= high:
            part.append(i)
    yield part


def plot(call: str, between: tuple[float, float], left: float, top: float, width: float) -> Iterator[str]:
    """One function with its derivative, at a place of the picture."""
    start, stop = between
    x = np.linspace(start, stop, POINTS)[1:-1]
    f = adc.compile(f"[{call} for x in points]", args="points", backend="numpy")
    with np.errstate(all="ignore"):
        orders = adc.taylor(f, (x,), (np.ones_like(x),), 2)
    y, first, second = (np.broadcast_to(1.0 * order, x.shape) for order in orders)
    seen = np.concatenate([y, first])
    seen = seen[np.isfinite(seen)].clip(-MOST, MOST)
    low, high = seen.min() - 0.15, seen.max() + 0.15

    def place(a: float, b: float) -> str:
        across = left + (a - start) / (stop - start) * width
        return f"{across:.1f},{top + (high - b) / (high - low) * (HEIGHT - TITLE):.1f}"

    size = next((s for s in (12, 10) if 0.61 * s * len(call) < width + 3), 9)
    text = html.escape(call, quote=False)
    yield f'<text x="{left}" y="{top - 6}" font-family="monospace" font-size="{size}">{text}</text>'
    box = f'width="{width:g}" height="{HEIGHT - TITLE}"'
    yield f'<rect x="{left}" y="{top}" {box} fill="none" stroke="{LINE}"/>'
    for a, b in (((start, 0), (stop, 0)), ((0, low), (0, high))):
        if start <= a[0] <= stop and low <= a[1] <= high:
            yield f'<path d="M{place(*a)} L{place(*b)}" stroke="{LINE}"/>'
    more = f'font-size="9" fill="{GREY}"'
    base = top + HEIGHT - TITLE + 10
    yield f'<text x="{left}" y="{base}" {more}>{start:g}</text>'
    yield f'<text x="{left + width:g}" y="{base}" text-anchor="end" {more}>{stop:g}</text>'
    for values, slopes, style in (
        (first, second, f'stroke="{ORANGE}" stroke-dasharray="4 2"'),
        (y, first, f'stroke="{BLUE}"'),
    ):
        parts = (part for part in curve(x, values, slopes, low, high) if len(part) > 1)
        path = " ".join("M" + " L".join(place(x[i], values[i]) for i in part) for part in parts)
        yield f'<path d="{path}" fill="none" stroke-width="1.6" {style}/>'

    over = f'{more} stroke="white" stroke-width="3" paint-order="stroke"'
    yield f'<text x="{left + 3}" y="{top + 10}" {over}>{high - 0.15:.2g}</text>'
    yield f'<text x="{left + 3}" y="{top + HEIGHT - TITLE - 3}" {over}>{low + 0.15:.2g}</text>'


def picture(found: Sequence[tuple[str, tuple[float, float]]], columns: int = 5) -> str:
    """Plots of functions, each between two numbers, as the text of an SVG file with a white background."""
    rows = -(-len(found) // columns)
    width, height = TOTAL + SPACE, rows * (HEIGHT + SPACE) + 12
    step = TOTAL // columns
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" font-family="Helvetica, Arial, sans-serif">',
        '<rect width="100%" height="100%" rx="6" fill="white"/>',
    ]
    for k, (call, between) in enumerate(found):
        row, column = divmod(k, columns)
        parts += plot(call, between, SPACE + column * step, 30 + row * (HEIGHT + SPACE), step - SPACE)
    return "\n".join([*parts, "</svg>\n"])


def shown(svg: Path) -> list[str]:
    """The functions that a picture shows."""
    found = re.findall(r'monospace" font-size="\d+">([^<]+)</text>', svg.read_text("utf-8"))
    return [html.unescape(call) for call in found]


def file_of(title: str) -> str:
    """The name of a section's picture."""
    return f"rules-{SECTIONS_SHOWN.index(title) + 1}.svg"


def write() -> None:
    for title in SECTIONS_SHOWN:
        found = [(call, interval(entry)) for entry, call in calls(title)]
        (DOCS / file_of(title)).write_text(picture(found), "utf-8")
