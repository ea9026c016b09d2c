"""The short chart of README.md, for light and dark pages: some workloads, some peers, plain SVG."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import log10
from pathlib import Path
from typing import Any

WORKLOADS = ("product-sum", "black-scholes", "gmm", "pairwise", "kmeans")
PEERS = {"numba": "numba, by hand", "torch.compile": "torch.compile", "jax": "JAX"}
BARS = {"light": ("#57606a", "#cc3311", "#0969da"), "dark": ("#9da7b3", "#ff7b6b", "#58a6ff")}
TEXT = {"light": "#1f2328", "dark": "#e6edf3"}
LEFT, RIGHT, BAR, TOP = 130, 560, 14, 44  # pixels
LEAST, MOST = 0.7, 300.0  # ratios at LEFT and RIGHT


def place(ratio: float) -> float:
    """Where a ratio stands on the logarithmic axis, in pixels."""
    return LEFT + (RIGHT - LEFT) * log10(ratio / LEAST) / log10(MOST / LEAST)


def label(x: float, y: float, words: str, more: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}"{more}>{words}</text>'


def bars(entries: Mapping[str, Any], top: float, colors: tuple[str, ...]) -> Iterator[str]:
    """One workload: a bar for each peer that was timed, from 1 to its ratio."""
    ours = entries["ours"]["median"]
    for row, (peer, color) in enumerate(zip(PEERS, colors, strict=True)):
        y = top + row * BAR
        if "median" not in entries.get(peer, {}):
            yield label(place(1) + 5, y + 10, "not compared", ' opacity="0.6"')
            continue
        ratio = entries[peer]["median"] / ours
        low, high = sorted((place(1), place(ratio)))
        yield f'<rect x="{low:.1f}" y="{y}" width="{high - low:.1f}" height="{BAR - 2}" fill="{color}"/>'
        yield label(high + 5, y + 10, f"{ratio:.3g}")


def chart(results: Mapping[str, Any], theme: str) -> str:
    """The chart as the text of an SVG file without a background."""
    colors, parts = BARS[theme], []
    for k, (name, color) in enumerate(zip(PEERS.values(), colors, strict=True)):
        parts.append(f'<rect x="{LEFT + k * 140}" y="8" width="10" height="10" fill="{color}"/>')
        parts.append(label(LEFT + 16 + k * 140, 17, name))
    group = len(PEERS) * BAR + 12
    shown = [name for name in WORKLOADS if name in results["workloads"]]
    bottom = TOP + group * len(shown)
    for k, name in enumerate(shown):
        top = TOP + k * group
        parts.append(label(LEFT - 10, top + group / 2, name, ' text-anchor="end"'))
        parts.extend(bars(results["workloads"][name]["entries"], top, colors))
    parts.append(f'<path d="M{place(1):.1f},{TOP - 8} V{bottom}" stroke="{TEXT[theme]}"/>')
    parts.append(label(LEFT, bottom + 16, "time divided by adcompiler's, logarithmic; 1 is equally fast"))
    size = f'width="640" height="{bottom + 26}" viewBox="0 0 640 {bottom + 26}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} '
    style = f'font-family="Helvetica, Arial, sans-serif" font-size="12" fill="{TEXT[theme]}">'
    return "\n".join([head + style, *parts, "</svg>\n"])


def draw(results: Mapping[str, Any], folder: Path) -> None:
    for theme in BARS:
        (folder / f"benchmarks-{theme}.svg").write_text(chart(results, theme), "utf-8")
