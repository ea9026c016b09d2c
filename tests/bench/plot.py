"""One picture: how many times longer each peer takes, workload by workload."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.report import title
from bench.workload import PEERS

COLORS = dict(zip(PEERS, ("#444444", "#de8f05", "#cc3311", "#0173b2", "#029e73", "#a65fb4"), strict=True))
BAR = 0.17  # inches, and as much between two groups


def ratios(entries: Mapping[str, Any]) -> dict[str, float]:
    """Each peer's time over ours, of those that were timed."""
    ours = entries.get("ours", {}).get("median")
    timed = {who: entries.get(who, {}).get("median") for who in PEERS}
    return {who: time / ours for who, time in timed.items() if time and ours}


def draw(results: Mapping[str, Any], path: Path) -> None:
    """Bars on a logarithmic axis from 1, where a peer is as fast as we are."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams.update({"svg.hashsalt": "bench", "font.size": 8})
    import matplotlib.pyplot as plt

    groups = {name: ratios(w["entries"]) for name, w in results["workloads"].items()}
    groups = {name: found for name, found in groups.items() if found}
    height = sum(len(found) + 1 for found in groups.values())
    figure, axes = plt.subplots(figsize=(8, 1.2 + BAR * height), layout="constrained")
    middles, top = [], 0.0
    for found in groups.values():
        for k, (who, ratio) in enumerate(found.items()):
            bar(axes, top + k, ratio, COLORS[who])
        middles.append(top + (len(found) - 1) / 2)
        top += len(found) + 1
    axes.axvline(1, color="black", linewidth=1)
    axes.set(xscale="log", yticks=middles, yticklabels=list(groups), ylim=(top - 0.5, -1.0))
    axes.set_xlabel("the peer's time over ours: to the right of 1 we are faster")
    axes.grid(axis="x", alpha=0.3)
    axes.margins(x=0.1)
    shown = [who for who in PEERS if any(who in found for found in groups.values())]
    handles = [plt.Rectangle((0, 0), 1, 1, color=COLORS[who]) for who in shown]
    figure.legend(handles, map(title, shown), loc="outside upper center", ncols=6, frameon=False)
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def bar(axes: Any, at: float, ratio: float, color: str) -> None:
    """One bar from 1, and its number at its end."""
    axes.barh(at, ratio - 1, 0.9, left=1, color=color)
    side = 1 if ratio >= 1 else -1
    place = {"textcoords": "offset points", "va": "center", "ha": "left" if side > 0 else "right"}
    axes.annotate(f"{ratio:.3g}", (ratio, at), (3 * side, 0), fontsize=6, **place)
