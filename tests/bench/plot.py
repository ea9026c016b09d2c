"""One picture: how many times longer each peer takes, a row for each workload. Plain SVG."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import floor, log10
from pathlib import Path
from typing import Any

from bench.report import title
from bench.workload import PEERS

COLORS = dict(zip(PEERS, ("#444444", "#de8f05", "#cc3311", "#0173b2", "#029e73", "#a65fb4"), strict=True))
WIDTH, LEFT, RIGHT, TOP, ROW = 760, 150, 736, 62, 21  # pixels
GREY, LINE = "#57606a", "#d8dee4"


def ratios(entries: Mapping[str, Any]) -> dict[str, float]:
    """Each peer's time over ours, of those that were timed."""
    ours = entries.get("ours", {}).get("median")
    timed = {who: entries.get(who, {}).get("median") for who in PEERS}
    return {who: time / ours for who, time in timed.items() if time and ours}


def text(x: float, y: float, words: str, more: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}"{more}>{words}</text>'


class Axis:
    """A logarithmic axis that has all ratios, and 1."""

    def __init__(self, values: list[float]) -> None:
        self.least, self.most = 0.8 * min(1.0, *values), 1.25 * max(10.0, *values)

    def place(self, ratio: float) -> float:
        return LEFT + (RIGHT - LEFT) * log10(ratio / self.least) / log10(self.most / self.least)

    def ticks(self) -> list[float]:
        return [10.0**k for k in range(floor(log10(self.most)) + 1)]


def row(y: float, name: str, found: Mapping[str, float], axis: Axis) -> Iterator[str]:
    """One workload: a dot for each peer, on a line from the fastest to the slowest of them and of us."""
    yield text(LEFT - 12, y + 4, name, ' text-anchor="end"')
    least, most = (axis.place(end([1.0, *found.values()])) for end in (min, max))
    yield f'<path d="M{least:.1f},{y} H{most:.1f}" stroke="{LINE}" stroke-width="2"/>'
    for who, ratio in found.items():
        words = f"{name}: {title(who)} takes {ratio:.3g} times as long"
        dot = f'cx="{axis.place(ratio):.1f}" cy="{y}" r="5" fill="{COLORS[who]}"'
        yield f"<circle {dot}><title>{words}</title></circle>"


def legend(shown: list[str]) -> Iterator[str]:
    for k, who in enumerate(shown):
        x = 20 + k * 118 + 24 * (k > 0)
        yield f'<circle cx="{x}" cy="20" r="5" fill="{COLORS[who]}"/>' + text(x + 11, 24, title(who))


def chart(results: Mapping[str, Any]) -> str:
    """The chart as the text of an SVG file; its background is white, on dark pages too."""
    groups = {name: ratios(w["entries"]) for name, w in results["workloads"].items()}
    groups = {name: found for name, found in groups.items() if found}
    axis = Axis([ratio for found in groups.values() for ratio in found.values()])
    bottom = TOP + ROW * len(groups)
    parts = list(legend([who for who in PEERS if any(who in found for found in groups.values())]))
    for tick in axis.ticks():
        x = axis.place(tick)
        parts.append(f'<path d="M{x:.1f},{TOP - 10} V{bottom}" stroke="{GREY if tick == 1 else LINE}"/>')
        parts.append(text(x, TOP - 16, f"{tick:,.0f}", f' text-anchor="middle" fill="{GREY}"'))
    for k, (name, found) in enumerate(groups.items()):
        parts.extend(row(TOP + k * ROW + 6, name, found, axis))
    words = (
        "time divided by adcompiler's, logarithmic: 1 is equally fast, and right of it adcompiler is faster"
    )
    parts.append(text(20, bottom + 24, words, f' fill="{GREY}"'))
    height = bottom + 40
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
    style = f'viewBox="0 0 {WIDTH} {height}" font-family="Helvetica, Arial, sans-serif" font-size="12">'
    paper = '<rect width="100%" height="100%" rx="6" fill="white"/>'
    return "\n".join([head + style, paper, *parts, "</svg>\n"])


def draw(results: Mapping[str, Any], path: Path) -> None:
    path.write_text(chart(results), "utf-8")
