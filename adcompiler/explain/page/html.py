"""The page as HTML: one document, with its style and its script, that asks for nothing from elsewhere.

Every text goes through `escape`, and a policy in the head of the page allows only the script and the style of
this package.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from hashlib import sha256
from html import escape
from pathlib import Path
from typing import Any

from adcompiler.explain.limits import MOST_EMBEDDED
from adcompiler.explain.page.colours import Span, coloured
from adcompiler.explain.page.costs import section as costs
from adcompiler.explain.page.explorer import Column, Page, Tab, explore
from adcompiler.explain.page.places import Line, Mark, Places
from adcompiler.ir.loop import Item
from adcompiler.ir.walk import arrays_of, elements_of
from adcompiler.pytree.kinds import Types

DEEPEST = 24  # columns of indentation for which page.css has a rule


def page(f: Any, args: Sequence[Any] = (), wrt: Any = None) -> str:
    """The page of a function for arguments like `args`, with its rooflines; without any, for the types of its
    last call, else those of annotations, else for scalars."""
    if not args:
        return document(explore(f, f._shown(()), wrt))
    call = f._describe(args)
    return document(explore(f, call.types, wrt, call.values))


def embedded(f: Any, types: Types) -> str | None:
    """The page for a notebook, folded, without what takes long: assembly and rooflines. None for long
    programs and those with loops, of which all takes long."""
    func = f._trace(types).func
    arrays = arrays_of(func.roots)
    size = len(elements_of(e for a in arrays for e in a.elements))
    if size > MOST_EMBEDDED or any(isinstance(a, Item) for a in arrays):
        return None
    text = document(explore(f, types, assembles=False))
    frame = (
        f'<iframe srcdoc="{escape(text)}" sandbox="allow-scripts" title="{escape(f.__name__)}" '
        'style="width:100%;height:44rem;border:1px solid #8884;border-radius:6px"></iframe>'
    )
    return f"<details><summary>from source to kernel</summary>{frame}</details>"


def document(page: Page) -> str:
    """The whole page."""
    style, script = resource("page.css"), resource("page.js")
    policy = f"default-src 'none'; style-src '{_digest(style)}'; script-src '{_digest(script)}'"
    head = (
        '<meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        '<meta name="color-scheme" content="light dark">',
        f"<title>{escape(page.name)}: from source to machine code</title>",
        f"<style>{style}</style>",
    )
    body = (
        _header(page),
        _toolbar(page.columns),
        f'<main class="columns">{"".join(map(_column, page.columns))}</main>',
        f'<div class="reports">{"".join(_reports(page))}</div>',
    )
    data = escape(json.dumps(_places(page.places)))
    return "\n".join(
        (
            "<!DOCTYPE html>",
            '<html lang="en">',
            f"<head>{''.join(head)}</head>",
            f'<body data-places="{data}">',
            *body,
            f"<script>{script}</script>",
            "</body>",
            "</html>",
            "",
        )
    )


@cache
def resource(name: str) -> str:
    """A file of this folder."""
    return Path(__file__).with_name(name).read_text("utf-8")


def _digest(text: str) -> str:
    """The digest by which the page's policy knows a script or a style."""
    return f"sha256-{b64encode(sha256(text.encode()).digest()).decode()}"


def _places(places: Places) -> dict[int, Any]:
    """Of each place, for the script: its text, its line, and the places inside it."""
    return {
        k: {"text": text, "line": places.line(k), "inside": places.inside(k)}
        for k, text in places.numbered.items()
    }


def _header(page: Page) -> str:
    return (
        f"<header><h1>{escape(page.name)}<span>{escape(page.signature)}</span></h1>"
        '<p class="status" id="status" role="status">Point at an expression, or click it, to see '
        "what it becomes.</p></header>"
    )


def _toolbar(columns: Sequence[Column]) -> str:
    """The buttons that show and hide columns; on a narrow screen, that choose one."""
    buttons = (
        f'<button type="button" data-shows="{c.key}" aria-pressed="true">{escape(c.title)}<b></b></button>'
        for c in columns
        if c.key != "source"
    )
    return f'<nav aria-label="Stages">{"".join(buttons)}</nav>'


# -- columns -------------------------------------------------------------------------------------------


def _column(column: Column) -> str:
    """A stage with its listings."""
    parts = [f"<h2>{escape(column.title)}</h2>"]
    parts += [f"<p>{escape(column.note)}</p>"] if column.note else []
    if len(column.tabs) > 1:
        parts.append(_tab_list(column))
    panels = (_panel(column, k, tab) for k, tab in enumerate(column.tabs))
    missing = f'<p class="missing">{escape(column.missing)}</p>' if column.missing else ""
    return (
        f'<section class="column" id="{column.key}" aria-label="{escape(column.title)}">'
        f'<div class="head">{"".join(parts)}</div>{"".join(panels)}{missing}</section>'
    )


def _tab_list(column: Column) -> str:
    tabs = (
        f'<button type="button" role="tab" id="{column.key}-tab{k}" aria-controls="{column.key}-{k}" '
        f'aria-selected="{str(not k).lower()}" tabindex="{-1 if k else 0}">'
        f"{escape(tab.title)}<b></b></button>"
        for k, tab in enumerate(column.tabs)
    )
    return f'<div class="tabs" role="tablist" aria-label="{escape(column.title)}">{"".join(tabs)}</div>'


def _panel(column: Column, k: int, tab: Tab) -> str:
    numbers = range(tab.first, tab.first + len(tab.lines))
    colours = coloured(column.key, [line.text for line in tab.lines])
    lines = "".join(
        _line(line, spans, number, number == tab.begin)
        for line, spans, number in zip(tab.lines, colours, numbers, strict=True)
    )
    omitted = f'<p class="missing">{tab.omitted:,} more lines are left out.</p>' if tab.omitted else ""
    hidden = " hidden" if k else ""
    role = ' role="tabpanel"' if len(column.tabs) > 1 else ""
    label = escape(f"{column.title}: {tab.title}")
    return (
        f'<div class="panel" id="{column.key}-{k}" tabindex="0"{role} aria-label="{label}"{hidden}>'
        f"<pre>{lines}</pre>{omitted}</div>"
    )


def _line(line: Line, colours: Sequence[Span], number: int, begins: bool) -> str:
    """A line; its marks become nested elements. The number is that of a line of a file, and `data-i` how deep
    it is indented: where it is too long for the column, it goes on there."""
    first = " data-begin" if begins and number > 1 else ""
    deep = min(len(line.text) - len(line.text.lstrip()), DEEPEST) // 2 * 2
    indent = f' data-i="{deep}"' if deep else ""
    pieces = "".join(_pieces(line.text, line.marks, colours))
    return f'<span class="line" data-n="{number}"{indent}{first}>{pieces}\n</span>'


def _pieces(text: str, marks: Iterable[Mark], colours: Sequence[Span]) -> Iterator[str]:
    ends: list[int] = []
    at = 0

    def close(upto: int) -> Iterator[str]:
        nonlocal at
        while ends and ends[-1] <= upto:
            yield _coloured(text, at, ends[-1], colours) + "</span>"
            at = ends.pop()

    for mark in marks:
        yield from close(mark.start)
        yield _coloured(text, at, mark.start, colours)
        at = mark.start
        ends.append(mark.end)
        values = f' data-values="{_numbers(mark.values)}"' if mark.values else ""
        derivative = " data-derivative" if mark.derivative else ""
        yield f'<span data-at="{_numbers(mark.places)}"{values}{derivative}>'
    yield from close(len(text))
    yield _coloured(text, at, len(text), colours)


def _coloured(text: str, start: int, stop: int, colours: Sequence[Span]) -> str:
    """A part of a line, with elements for its words that have a colour."""
    found, at = [], start
    for begin, end, kind in colours:
        begin, end = max(begin, at), min(end, stop)
        if begin < end:
            found.append(f'{escape(text[at:begin])}<i class="{kind}">{escape(text[begin:end])}</i>')
            at = end
    return "".join((*found, escape(text[at:stop])))


def _numbers(places: Iterable[int]) -> str:
    return " ".join(map(str, places))


# -- reports -------------------------------------------------------------------------------------------


def _reports(page: Page) -> Iterator[str]:
    if page.fates:
        yield _report("values", "What becomes of each value", _fates(page))
    if page.gradients:
        yield _report("gradients", "Gradients", _gradients(page))
    if page.costs is not None:
        yield _report("costs", "Rooflines", costs(page.costs))


def _report(key: str, title: str, content: str) -> str:
    return f'<section class="report" id="{key}"><h2>{escape(title)}</h2>{content}</section>'


def _fates(page: Page) -> str:
    rows = "".join(
        f'<tr><th scope="row"><span data-at="{_numbers(f.places)}">{escape(f.name)}</span></th>'
        f"<td>{escape(f.kernel)}{_reason(f.why_kernel)}</td>"
        f"<td>{escape(f.propagate)}{_reason(f.why)}</td></tr>"
        for f in page.fates
    )
    again = page.again and f"<p>Propagate computes again: {escape(page.again)}.</p>"
    return (
        '<table><thead><tr><th scope="col">value</th><th scope="col">in the kernel</th>'
        f'<th scope="col">for propagate</th></tr></thead><tbody>{rows}</tbody></table>{again}'
    )


def _reason(why: str) -> str:
    """Why, with code between backticks."""
    if not why:
        return ""
    parts = why.split("`")
    text = "".join(f"<code>{escape(p)}</code>" if k % 2 else escape(p) for k, p in enumerate(parts))
    return f"<small>{text}</small>"


def _gradients(page: Page) -> str:
    items = "".join(
        f"<dt>{escape(flow.name)}</dt><dd>{escape('flows' if flow.flows else flow.why or '')}</dd>"
        for flow in page.gradients
    )
    return f"<dl>{items}</dl>"
