"""The texts of the rule table are programs of the language, and keep the type of their operands."""

from __future__ import annotations

import pytest

from adcompiler.ad.partials import partial
from adcompiler.frontend.lowering.rule_texts import element_of
from adcompiler.ir.nodes import Element, Input, Read, const
from adcompiler.ir.types import Dtype
from adcompiler.ops.build import apply
from adcompiler.ops.rules.primitive import Primitive
from adcompiler.ops.table import TABLE


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("entry", [e for e in TABLE.values() if e.differentiable], ids=lambda e: e.name)
def test_texts_are_of_the_language(entry: Primitive, dtype: Dtype) -> None:
    args: list[Element] = [Read(Input(k, dtype, ()), ()) for k in range(len(entry.params))]
    if entry.orders is not None:
        args[0] = const(2, dtype)
    result = apply(entry.name, *args)
    assert {partial(result, k).dtype for k in range(len(args))} == {dtype}  # type: ignore[arg-type]
    if entry.expand:
        assert element_of(entry.expand, dict(zip(entry.params, args, strict=True)), dtype).dtype == dtype
