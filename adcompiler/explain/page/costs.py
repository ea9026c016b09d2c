"""The rooflines of a function's kernels as HTML: what each nest moves and computes, and how long it takes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from html import escape
from typing import Any

from adcompiler.runtime.reports.cost import Costs, Measured, in_words

BARS = ("moving", "computing", "measured")
LABEL = 10  # columns of a line of the report before its text


def section(costs: Costs) -> str:
    """The rooflines of all kernels."""
    lengths = ", ".join(f"{name} = {n:,}" for name, n in costs.sizes.items())
    where = f"{f'For {lengths}, on' if lengths else 'On'} {costs.machine[0].processor}."
    about = "A nest takes at the least the longer of moving its data and computing, at this machine's rates."
    return f"<p>{escape(where)} {escape(about)}</p>{''.join(map(_kernel, costs.kernels))}"


def _kernel(measured: Measured) -> str:
    """One kernel: the time of a call, what it saves, and its nests."""
    found = measured.fields()
    threads = f"{measured.threads} thread{'s' * (measured.threads > 1)}"
    notes = "".join(
        f"<p>{escape(what)} {'<br>'.join(map(escape, lines))}</p>"
        for what, lines in measured.kernel.notes.items()
    )
    most = max((max(_times(nest)) for nest in found["nests"]), default=0.0)
    nests = "".join(_nest(k, nest, most, measured.nest(k)) for k, nest in enumerate(found["nests"]))
    return (
        f"<article><h3>{escape(measured.kernel.name)}"
        f"<span>{escape(in_words(measured.whole))} per call, {threads}</span></h3>{notes}{nests}</article>"
    )


def _times(nest: Mapping[str, Any]) -> list[float]:
    return [nest[name] or 0.0 for name in BARS]


def _nest(k: int, nest: Mapping[str, Any], most: float, lines: Iterable[str]) -> str:
    """One nest: bars of its times, and the lines of its report."""
    bars = "".join(_bar(name, time, most) for name, time in zip(BARS, _times(nest), strict=True))
    texts = ((line[:LABEL].strip(), line[LABEL:]) for line in lines)
    named: dict[str, list[str]] = {}
    label = ""
    for found, text in texts:
        label = found or label
        named.setdefault(label, []).append(text)
    facts = "".join(
        f"<dt>{escape(what)}</dt><dd>{'<br>'.join(map(escape, said))}</dd>" for what, said in named.items()
    )
    title = f"nest {k}: {', '.join(nest['computes'])}"
    return (
        f"<h4>{escape(title)}<span>{escape(', '.join(nest['loops']))}</span></h4>"
        f'<div class="bars">{bars}</div><dl>{facts}</dl>'
    )


def _bar(name: str, time: float, most: float) -> str:
    """A bar as long as a time, beside those of the other nests of the kernel."""
    width = 100 * time / most if most else 0.0
    return (
        f'<span>{name}</span><svg viewBox="0 0 100 6" preserveAspectRatio="none" aria-hidden="true">'
        f'<rect class="{name}" width="{width:.2f}" height="6"/></svg>'
        f"<span>{escape(in_words(time)) if time else 'not timed'}</span>"
    )
