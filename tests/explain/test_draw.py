"""Pictures of the tape: as a text, SVG and Graphviz."""

from __future__ import annotations

import re
from importlib.util import find_spec
from itertools import combinations
from xml.etree import ElementTree

import numpy as np
import pytest

import adcompiler as adc
from adcompiler import DtypeError, Error, Variable, tape

SVG = "{http://www.w3.org/2000/svg}"


def example():
    """A loss with a number taken out, a detached value and a derivative that is zero."""
    w = Variable([0.5, -1.0], requires_grad=True, name="w")
    h = w * 2.0
    factor = (h * h).sum().item()
    constant = h.detach()
    return ((h * factor + constant * np.floor(w)).sum() - 1.0) ** 2


def test_the_text_shows_values_shapes_lines_gradients_and_cuts():
    loss = example()
    loss.backward(retain_graph=True)
    text = str(tape.draw(loss))
    first, *rest = text.split("\n")
    assert first.endswith("** 2.0") or first.endswith("** 2")
    assert any(line.endswith("(2,) [0.5, -1]") for line in rest)
    assert re.search(r"grad: \(2,\) \[", text)
    assert "test_draw.py" in text
    assert "w = Variable([0.5, -1.0], requires_grad=True" in text
    line = example.__code__.co_firstlineno + 4
    assert f"cut: .item(), test_draw.py:{line}" in text
    assert "cut: detach() starts a new graph" in text
    assert "[cut: its derivative is zero everywhere]" in text
    assert repr(tape.draw(loss)) == text


def boxes(root):
    """The rectangles of a picture, without its background: left, top, right, bottom."""
    found = [{k: float(r.get(k)) for k in ("x", "y", "width", "height")} for r in root.iter(f"{SVG}rect")]
    return [(r["x"], r["y"], r["x"] + r["width"], r["y"] + r["height"]) for r in found[1:]]


@pytest.mark.parametrize("steps", [0, 1, 30])
def test_boxes_of_an_svg_do_not_overlap_and_are_inside(tmp_path, steps):
    v = example()
    b = Variable(0.1, requires_grad=True, name='<b> & "c"')
    for _ in range(steps):
        v = np.tanh(v * b + b * 2.0)
    tape.draw(v, tmp_path / "graph.svg")
    root = ElementTree.parse(tmp_path / "graph.svg").getroot()
    left, top, width, height = map(float, root.get("viewBox").split())
    found = boxes(root)
    assert len(found) >= 8 + 3 * steps
    for x0, y0, x1, y1 in found:
        assert left <= x0 < x1 <= left + width
        assert top <= y0 < y1 <= top + height
    for (a0, b0, a1, b1), (c0, d0, c1, d1) in combinations(found, 2):
        assert a1 <= c0 or c1 <= a0 or b1 <= d0 or d1 <= b0


def test_arrows_lead_down_from_operands_to_results(tmp_path):
    x = Variable(2.0, requires_grad=True, name="x")
    tape.draw(x * x + x, tmp_path / "graph.svg")
    root = ElementTree.parse(tmp_path / "graph.svg").getroot()
    ways = [p.get("d") for p in root.iter(f"{SVG}path") if p.get("marker-end")]
    assert len(ways) == 3  # x to the product, once; x and the product to the sum
    for way in ways:
        heights = [float(y) for _, y in re.findall(r"([-\d.]+),([-\d.]+)", way)]
        assert heights == sorted(heights)


def test_graphviz_and_other_files(tmp_path):
    loss = example()
    tape.draw(loss, str(tmp_path / "graph.dot"))
    text = (tmp_path / "graph.dot").read_text()
    assert text.startswith("digraph tape {")
    assert text.count("->") == 10
    assert 'style=dashed color="#c0392b"' in text
    with pytest.raises(Error, match=r"use \.svg, \.dot"):
        tape.draw(loss, tmp_path / "graph.bmp")
    if find_spec("cairosvg") is None:
        with pytest.raises(Error, match="pip install"):
            tape.draw(loss, tmp_path / "graph.png")


def test_only_the_latest_operations_of_a_long_graph_are_drawn(tmp_path):
    v = Variable(1.0, requires_grad=True)
    for _ in range(3000):
        v = v * 1.5
    text = tape.draw(v, tmp_path / "graph.svg", limit=20)
    assert len(re.findall(r"(?m)^ *`- v\d+ = ", text)) == 19  # below the first
    assert "2,980 earlier operations are not shown" in text
    assert "2,980 earlier operations are not shown" in (tmp_path / "graph.svg").read_text()


def test_leaves_several_outputs_empty_arrays_and_freed_graphs(tmp_path):
    x = Variable(np.zeros((0, 2)), requires_grad=True, name="x")
    assert str(tape.draw(x)).startswith("x\n")
    y = x.sum()
    text = tape.draw([y, x * 2.0], tmp_path / "graph.svg")
    assert text.count("(0, 2) []") >= 2
    z = Variable(np.float32(2.0), requires_grad=True, name="z")
    product = z * z * z
    product.backward()
    text = tape.draw(product)
    assert "grad: 12 float32" in text
    assert "(freed)" in text
    with pytest.raises(DtypeError, match="has no graph"):
        tape.draw(3.0)


def test_a_compiled_function_is_one_box():
    f = adc.compile("a * sin(b)", name="f")
    text = tape.draw(f(Variable(1.0, name="a"), Variable(2.0, name="b")))
    assert "= f(a, b)" in text
    assert "`- b" in text
