"""Tables in words and figures: for the terminal and for docs/benchmarks.md."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.workload import PEERS

SIGNS = {
    "needs more memory": "memory",
    "over ": "too slow",
    "too slow": "too slow",
    "disagrees": "disagrees",
    "failed": "failed",
}
TITLES = {"ours": "adcompiler", "numba": "by hand (numba)", "jax": "JAX", "casadi": "CasADi"}
Results = Mapping[str, Any]


def seconds(value: float | None) -> str:
    """A time in the unit that suits it, with three digits."""
    if value is None:
        return "—"
    unit, factor = next((u for u in (("s", 1.0), ("ms", 1e3), ("µs", 1e6)) if value * u[1] >= 1), ("ns", 1e9))
    return f"{figures(value * factor)} {unit}"


def figures(value: float) -> str:
    """Three digits, without an exponent."""
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def ratio_cell(pair: Results) -> str:
    """A ratio and its interval."""
    return f"{figures(pair['ratio'])} ({figures(pair['low'])} to {figures(pair['high'])})"


def megabytes(value: int | None) -> str:
    return "—" if value is None else f"{value / 1e6:.0f}" if value >= 1e7 else f"{value / 1e6:.1f}"


def grid(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of Markdown, aligned so that it reads well as text."""
    rows = [list(head), *map(list, rows)]
    widths = [max(len(row[k]) for row in rows) for k in range(len(head))]
    lines = ["| " + " | ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)) + " |" for row in rows]
    lines.insert(1, "|" + "|".join("-" * (w + 2) for w in widths) + "|")
    return "\n".join(lines)


def known(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table without the columns that have no value; nothing where none has."""
    rows = [list(row) for row in rows]
    kept = [k for k in range(len(head)) if any(row[k] != "—" for row in rows)]
    if len(kept) < 2:
        return ""
    return grid([head[k] for k in kept], [[row[k] for k in kept] for row in rows])


def title(who: str) -> str:
    return TITLES.get(who, who)


def line(name: str, found: Results) -> str:
    """One workload in one line."""
    cells = []
    for who, entry in found["entries"].items():
        text = seconds(entry["median"]) if "median" in entry else entry.get("skipped", "—")
        cells.append(f"{who} {text}")
    return f"  {name}: " + "; ".join(cells)


def column(results: Results, cell: Any, skip: Sequence[str] = ()) -> str:
    """A table of all workloads by all entries."""
    names = [who for who in ("ours", *PEERS) if who not in skip]
    rows = (
        [name, *(cell(found["entries"].get(who, {})) for who in names)]
        for name, found in results["workloads"].items()
    )
    return known(["workload", *map(title, names)], rows)


def timing(entry: Results) -> str:
    """The median, and how far the quartiles lie apart."""
    if "median" not in entry:
        return short(entry.get("skipped"))
    spread = (entry["high"] - entry["low"]) / entry["median"] / 2
    return f"{seconds(entry['median'])} ±{100 * spread:.0f}%"


def short(reason: str | None) -> str:
    """A reason in a cell; the notes say the rest."""
    if reason is None:
        return "—"
    found = [text for sign, text in SIGNS.items() if reason.startswith(sign)]
    return found[0] if found else "—"


def target_rows(results: Results) -> Iterable[list[str]]:
    for name, found in results["workloads"].items():
        for t in found["targets"]:
            ratio = "not measured" if t["ratio"] is None else figures(t["ratio"])
            met = {True: "yes", False: "**no**", None: "—"}[t["met"]]
            yield [name, title(t["against"]), figures(t["target"]), ratio, met]


def first_table(results: Results) -> str:
    """First gradients beyond the import; ours from the start of Python too, and with a filled cache."""
    names = ["ours", *PEERS]

    def cell(who: str, entry: Results) -> str:
        if "first" not in entry:
            return "—"
        return f"{entry['first']:.2f} + {entry['import']:.2f}"

    def one(value: float | None) -> str:
        return "—" if value is None else f"{value:.2f}"

    rows = []
    for name, found in results["workloads"].items():
        ours = found["entries"].get("ours", {})
        cells = [cell(who, found["entries"].get(who, {})) for who in names]
        rows.append([name, one(ours.get("wall")), cells[0], one(ours.get("warm")), *cells[1:]])
    return known(["workload", "wall", "adcompiler", "cached", *map(title, PEERS)], rows)


def notes(results: Results) -> str:
    """Why an entry is not there, one line a reason."""
    found: dict[str, list[str]] = {}
    for name, workload in results["workloads"].items():
        for who, entry in workload["entries"].items():
            if entry.get("skipped", "not written") != "not written":
                found.setdefault(f"{title(who)}: {entry['skipped']}", []).append(name)
    return "\n".join(f"- {why} ({', '.join(names)})" for why, names in found.items())


def tables(results: Results) -> str:
    """Everything, as text."""
    memory = column(results, lambda entry: megabytes(entry.get("memory")))
    parts = {
        "Times": column(results, timing),
        "Targets": known(["workload", "against", "target", "ratio", "met"], target_rows(results)),
        "First gradient, seconds beyond the import + import": first_table(results),
        "Memory of one call beyond its inputs, MB": memory,
        "Not measured": notes(results),
    }
    return "\n\n".join(f"## {head}\n\n{text}" for head, text in parts.items() if text)


def _taken(results: Results) -> str:
    """The date and the commit of the measurement."""
    taken = results.get("taken", {})
    commit = f" at commit {taken['commit']}" if taken.get("commit") else ""
    return f"{taken['date']}{commit}" if taken else "an unknown date"


def page(results: Results) -> str:
    """docs/benchmarks.md."""
    machine = results["machine"]
    versions = ", ".join(f"{name} {number}" for name, number in machine["versions"].items())
    workloads = "\n".join(f"- **{name}**: {w['about']}" for name, w in results["workloads"].items())
    text = Path(__file__).with_name("page.md").read_text("utf-8")
    return text.format(
        machine="{processor} ({vectors}), {cores} cores, {system}".format(**machine),
        threads=machine["threads"], versions=versions, workloads=workloads, tables=tables(results),
        note=results.get("note", ""), taken=_taken(results), size=results["size"], backend=results["backend"],
    )  # fmt: skip


def publish(results: Results, folder: Path) -> None:
    """The page, its pictures and its figures."""
    from bench import front
    from bench.plot import draw

    (folder / "benchmarks.json").write_text(json.dumps(results, indent=1) + "\n", "utf-8")
    (folder / "benchmarks.md").write_text(page(results), "utf-8")
    draw(results, folder / "benchmarks.svg")
    front.draw(results, folder)
