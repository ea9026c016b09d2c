"""One picture: how many times longer each peer takes, workload by workload."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench.report import title
from bench.workload import PEERS

COLORS = dict(zip(PEERS, ("#444444", "#de8f05", "#cc3311", "#0173b2", "#029e73", "#a65fb4"), strict=True))


def ratios(results: Mapping[str, Any], who: str) -> list[float | None]:
    """A peer's time over ours for each workload, None where either is missing."""
    found = []
    for workload in results["workloads"].values():
        times = [workload["entries"].get(name, {}).get("median") for name in (who, "ours")]
        found.append(times[0] / times[1] if all(times) else None)
    return found


def draw(results: Mapping[str, Any], path: Path) -> None:
    """Bars on a logarithmic axis from 1, where a peer is as fast as we are."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams.update({"svg.hashsalt": "bench", "font.size": 9})
    import matplotlib.pyplot as plt

    names = list(results["workloads"])
    figure, axes = plt.subplots(figsize=(9, 1.2 + 0.62 * len(names)), layout="constrained")
    height = 0.84 / len(PEERS)
    for k, who in enumerate(PEERS):
        found = [(row, r) for row, r in enumerate(ratios(results, who)) if r is not None]
        at = [row + (k - (len(PEERS) - 1) / 2) * height for row, _ in found]
        axes.barh(at, [r - 1 for _, r in found], height, left=1, color=COLORS[who], label=title(who))
        for y, (_, r) in zip(at, found, strict=True):
            inward = {"ha": "left"} if r >= 1 else {"ha": "right"}
            axes.annotate(
                f"{r:.3g}", (r, y), (3 if r >= 1 else -3, 0), textcoords="offset points", va="center",
                fontsize=6, **inward,
            )  # fmt: skip
    axes.axvline(1, color="black", linewidth=1)
    axes.set(xscale="log", yticks=range(len(names)), yticklabels=names, ylim=(len(names) - 0.5, -0.5))
    axes.set_xlabel("the peer's time over ours: to the right of 1 we are faster")
    axes.grid(axis="x", alpha=0.3)
    axes.margins(x=0.08)
    axes.legend(loc="upper center", bbox_to_anchor=(0.45, 1.0), ncols=len(PEERS), frameon=False)
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)
