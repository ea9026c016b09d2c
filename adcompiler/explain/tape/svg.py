"""A picture of the tape as SVG: layers from the leaves at the top to the output at the bottom.

The layout is Sugiyama's: layers by the longest path, arrows over several layers through points in each, an
order by the mean of the neighbours, and places as near to that mean as the widths allow.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from itertools import pairwise

from adcompiler.explain.limits import FAR_LAYERS
from adcompiler.explain.tape.picture import Arrow, Box, Picture
from adcompiler.runtime.reports.cut_words import words

CHARACTER, LINE, PAD, GAP, BETWEEN, LONGEST = 6.3, 15, 10, 24, 44, 60  # in pixels; LONGEST in characters
FILLS = {"operation": "#ffffff", "output": "#dbe9ff", "leaf": "#dff3e0", "constant": "#f0f0f0"}
RED, SWEEPS = "#c0392b", 8


class Spot:
    """A box in its layer, or a point through which an arrow passes."""

    def __init__(self, layer: int, lines: Sequence[tuple[str, str]] = (), box: Box | None = None) -> None:
        self.layer, self.lines, self.box = layer, lines, box
        longest = max((len(text) for text, _ in lines), default=0)
        self.width = longest * CHARACTER + 2 * PAD if box else 4.0
        self.height = len(lines) * LINE + PAD if box else 0.0
        self.x = self.y = 0.0
        self.near: list[Spot] = []  # the neighbours in the layers before and behind


def as_svg(found: Picture) -> str:
    """The picture as the text of an SVG file."""
    layers, paths = _layers(found)
    _order(layers)
    height = _place(layers)
    spots = [s for layer in layers for s in layer]
    left = min((s.x - s.width / 2 for s in spots), default=0.0) - PAD
    width = max((s.x + s.width / 2 for s in spots), default=0.0) + PAD - left
    note = f"{found.left_out:,} earlier operations are not shown" if found.left_out else ""
    rows = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="{left:.0f} 0 {width:.0f} {height:.0f}" font-family="monospace" font-size="10.5">',
        '<defs><marker id="tip" markerWidth="8" markerHeight="8" refX="7" refY="3" orient="auto">'
        '<path d="M0,0 L7,3 L0,6 z" fill="#555"/></marker></defs>',
        f'<rect x="{left:.0f}" y="0" width="{width:.0f}" height="{height:.0f}" fill="#fff"/>',
        *(_arrow(arrow, path) for arrow, path in paths),
        *(_box(spot) for spot in spots if spot.box is not None),
    ]
    if note:
        rows.append(f'<text x="{left + PAD:.0f}" y="{LINE}" fill="#777">{note}</text>')
    return "\n".join([*rows, "</svg>", ""])


def _texts(box: Box, cut: str | None) -> list[tuple[str, str]]:
    """The lines of a box, each with its color."""
    lines = [(box.title, "#000"), *((line, "#333") for line in box.lines)]
    lines += [(box.gradient, "#1e7e34")] if box.gradient else []
    lines += [(box.place, "#888")] if box.place else []
    lines += [(text, RED) for text in (*box.cuts, *([cut] if cut else []))]
    return [(text if len(text) <= LONGEST else text[: LONGEST - 3] + "...", color) for text, color in lines]


def _layers(found: Picture) -> tuple[list[list[Spot]], list[tuple[Arrow, list[Spot]]]]:
    """The spots by layers, and the way of each arrow, from its tail to its head."""
    depth = dict.fromkeys(found.boxes, 0)
    above: dict[Box, list[Box]] = {box: [] for box in found.boxes}
    for arrow in found.arrows:
        above[arrow.head].append(arrow.tail)
    for box in _ordered(found.boxes, above):  # every head before its tails
        for tail in above[box]:
            depth[tail] = max(depth[tail], depth[box] + 1)
    last = max(depth.values(), default=0)
    layers: list[list[Spot]] = [[] for _ in range(last + 1)]
    cuts = {arrow.head: f"cut: {words(arrow.cut).what}" for arrow in found.arrows if arrow.cut}
    spots = {box: Spot(last - depth[box], _texts(box, cuts.get(box)), box) for box in found.boxes}
    for spot in spots.values():
        layers[spot.layer].append(spot)
    paths: list[tuple[Arrow, list[Spot]]] = []
    for arrow in found.arrows:
        first, end = spots[arrow.tail], spots[arrow.head]
        if end.layer - first.layer > FAR_LAYERS and arrow.tail.kind in ("leaf", "constant"):
            first = Spot(
                end.layer - 1, [(arrow.tail.title, "#000")], Box(arrow.tail.title, kind=arrow.tail.kind)
            )
            layers[first.layer].append(first)  # its name again, for the way is long
        path = [first, *(Spot(k) for k in range(first.layer + 1, end.layer)), end]
        for one, other in pairwise(path):
            one.near.append(other)
            other.near.append(one)
        for point in path[1:-1]:
            layers[point.layer].append(point)
        paths.append((arrow, path))
    return layers, paths


def _ordered(boxes: Sequence[Box], above: dict[Box, list[Box]]) -> list[Box]:
    """The boxes with every head before its tails."""
    waiting = dict.fromkeys(boxes, 0)
    for tails in above.values():
        for tail in tails:
            waiting[tail] += 1
    found = [box for box in boxes if not waiting[box]]
    for box in found:
        for tail in above[box]:
            waiting[tail] -= 1
            if not waiting[tail]:
                found.append(tail)
    return found


def _order(layers: Sequence[list[Spot]]) -> None:
    """Order each layer by where the neighbours stand, to and fro: few arrows cross."""
    for layer in layers:
        for k, spot in enumerate(layer):
            spot.x = float(k)
    for sweep in range(SWEEPS):
        for layer in layers if sweep % 2 else reversed(layers):
            means = {s: sum(n.x for n in s.near) / len(s.near) if s.near else s.x for s in layer}
            layer.sort(key=means.__getitem__)
            for k, spot in enumerate(layer):
                spot.x = float(k)


def _place(layers: Sequence[list[Spot]]) -> float:
    """Give each spot its place; returns the height of the whole."""
    y = float(PAD + LINE)
    for layer in layers:
        tall = max(s.height for s in layer)
        x = 0.0
        for spot in layer:
            spot.height = spot.height if spot.box else tall  # an arrow passes beside boxes, not behind
            spot.x, spot.y = x + spot.width / 2, y + tall / 2
            x += spot.width + GAP
        y += tall + BETWEEN
    for sweep in range(2 * SWEEPS):
        for layer in layers if sweep % 2 else reversed(layers):
            _settle(layer)
    return y - BETWEEN + PAD


def _settle(layer: Sequence[Spot]) -> None:
    """Move spots towards their neighbours' mean, without overlap and in their order."""
    wanted = [sum(n.x for n in s.near) / len(s.near) if s.near else s.x for s in layer]
    groups: list[list[float]] = []  # of spots that touch: how many, and the sum of where they want to be
    offset = 0.0
    offsets = []
    for k, spot in enumerate(layer):
        offset += (layer[k - 1].width / 2 + GAP + spot.width / 2) if k else 0.0
        offsets.append(offset)
        groups.append([1, wanted[k] - offset])
        while len(groups) > 1 and groups[-2][1] / groups[-2][0] > groups[-1][1] / groups[-1][0]:
            count, total = groups.pop()
            groups[-1][0] += count
            groups[-1][1] += total
    k = 0
    for count, total in groups:
        for _ in range(int(count)):
            layer[k].x = total / count + offsets[k]
            k += 1


def _box(spot: Spot) -> str:
    assert spot.box is not None
    x, y = spot.x - spot.width / 2, spot.y - spot.height / 2
    border = RED if spot.box.cuts else "#555"
    dash = ' stroke-dasharray="4 3"' if spot.box.kind == "constant" else ""
    rows = [
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{spot.width:.1f}" height="{spot.height:.1f}" rx="5" '
        f'fill="{FILLS[spot.box.kind]}" stroke="{border}"{dash}/>'
    ]
    for k, (text, color) in enumerate(spot.lines):
        weight = ' font-weight="bold"' if k == 0 else ""
        rows.append(
            f'<text x="{spot.x:.1f}" y="{y + PAD / 2 + LINE * (k + 0.75):.1f}" text-anchor="middle" '
            f'fill="{color}"{weight}>{escape(text)}</text>'
        )
    return "\n".join(rows)


def _arrow(arrow: Arrow, path: Sequence[Spot]) -> str:
    """A curve from the bottom of the tail to the top of the head."""
    tail, head = path[0], path[-1]
    points = [(tail.x, tail.y + tail.height / 2)]
    for s in path[1:-1]:
        points += [(s.x, s.y - s.height / 2), (s.x, s.y + s.height / 2)]
    points.append((head.x, head.y - head.height / 2))
    way = f"M{points[0][0]:.1f},{points[0][1]:.1f}"
    for (x, y), (to_x, to_y) in pairwise(points):
        middle = (y + to_y) / 2
        way += f" C{x:.1f},{middle:.1f} {to_x:.1f},{middle:.1f} {to_x:.1f},{to_y:.1f}"
    style = f'stroke="{RED}" stroke-dasharray="5 3"' if arrow.cut else 'stroke="#555"'
    return f'<path d="{way}" fill="none" {style} marker-end="url(#tip)"/>'
