"""What is remembered of numbers and arrays that leave a graph, for `adc.why_none`."""

from __future__ import annotations

import copy
from pathlib import Path

import numpy as np

import adcompiler as adc
from adcompiler import Variable, tape
from adcompiler.eager.graph.graph import live
from adcompiler.eager.graph.provenance import taken
from adcompiler.ops.table import TABLE


def test_what_is_remembered_holds_no_graph():
    x = Variable(3.0, requires_grad=True)
    before = len(live())
    for _ in range(1000):
        (x * x).item()
        (x * x).value  # noqa: B018
        (x * x).detach()
    assert len(live()) == before


def test_the_log_of_conversions_is_the_users_own():
    """Rules compare values, and checks of derivatives take them: these are no conversions of the user's."""
    x = Variable([0.3, 0.7], requires_grad=True)
    _ = x[0].item()
    before = taken()
    for name, primitive in TABLE.items():
        if primitive.differentiable and primitive.orders is None:
            y = tape.apply(name, *[x] * len(primitive.params)).sum()
            first = tape.grad(y, x, create_graph=True)
            if first is not None and first.requires_grad:
                first.sum().backward()
    np.median(x)
    np.isclose(x, x)
    copy.deepcopy(x)
    tape.check(lambda x: x * x, np.array(2.0))
    assert taken() == before


def test_a_file_whose_folder_is_called_like_this_package_is_the_users():
    x = Variable(3.0, requires_grad=True)
    file = f"{Path(adc.__file__).parent}_of_mine/script.py"
    exec(compile("x.item()", file, "exec"), {"x": x})
    assert taken()[0].place.short == "script.py:1"
