"""Programs of the IR, their derivatives of any order, and every way to evaluate them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from textwrap import dedent
from typing import Any

import numpy as np

from adcompiler.ad.programs.split import value_and_grad
from adcompiler.interpreter.reference import Reference
from adcompiler.ir.nodes import Array, Func, Index, Map, Read, Reduce, Size, const
from adcompiler.ir.textform.reader import parse_func
from adcompiler.ir.textform.verify import verify
from adcompiler.ir.types import NUMPY, is_float
from adcompiler.ops.build import apply
from adcompiler.ops.table import TABLE
from adcompiler.passes.pipeline import KERNEL, OPTIMISE, run
from adcompiler.targets.cpu.kernels import KernelSelector
from adcompiler.targets.cpu.targets import finished


def program(text: str) -> Func:
    """The program that a text shows."""
    return parse_func(dedent(text).strip())


def check(func: Func) -> None:
    """The verifier with the rule table at hand."""
    verify(func, TABLE)


def wanted(func: Func) -> list[int]:
    """The inputs that carry a derivative."""
    return [k for k, array in enumerate(func.inputs) if is_float(array.dtype)]


def sizes_of(func: Func, args: Sequence[Any]) -> list[int]:
    """The lengths that the shapes of `args` give to the size symbols."""
    sizes = [0] * len(func.size_names)
    for array, arg in zip(func.inputs, args, strict=True):
        for size, n in zip(array.shape, np.shape(arg), strict=True):
            if isinstance(size, Size):
                sizes[size.number] = n
    return sizes


def arguments(func: Func, args: Sequence[Any]) -> list[Any]:
    """`args` as kernels take them: arrays, and scalars of the right type."""
    return [NUMPY[i.dtype].type(a) if i.rank == 0 else a for i, a in zip(func.inputs, args, strict=True)]


def optimised(func: Func) -> Func:
    """The program that users see, verified after each pass."""
    return run(OPTIMISE, func, check)


def kernel(func: Func) -> Func:
    """The program as the scheduler takes it, verified after each pass."""
    return run(KERNEL, optimised(func), check)


def compiled(func: Func) -> KernelSelector:
    """The kernels of a program after all passes."""
    return finished(kernel(func))


def reference(func: Func, args: Sequence[Any]) -> list[np.ndarray]:
    """The results by the NumPy interpreter, without any pass."""
    return Reference(func)(sizes_of(func, args), args)


def scalar(func: Func) -> Func:
    """The sum of all results, each element with a weight of its own: its gradient tests them all."""
    terms = [_weighted(array, k) for k, array in enumerate(func.results) if is_float(array.dtype)]
    total = Read(terms[0], ())
    for term in terms[1:]:
        total = apply("add", total, Read(term, ()))
    return func.with_(name=f"{func.name}.scalar", results=(Map((), total),), result_names=("total",))


def _weighted(array: Array, number: int) -> Array:
    place = const(0.7 + 0.3 * number, "f64")
    for k in range(array.rank):
        place = apply("add", place, apply("multiply", const(1.3 + k, "f64"), Index(k)))
    weight = apply("f64", apply("sin", place)) if array.dtype == "f64" else apply("f32", apply("sin", place))
    body = apply("multiply", weight, Read(array, tuple(Index(k) for k in range(array.rank))))
    return Reduce("sum", (), array.shape, body) if array.rank else Map((), body)


def orders(func: Func, highest: int = 2) -> Iterator[tuple[Func, Func]]:
    """A scalar function and the program of its value and gradient, for each order up to `highest`."""
    for _ in range(highest):
        value = scalar(func)
        joint = value_and_grad(value, wanted(func), True)
        check(joint)
        yield value, joint
        func = joint.with_(results=joint.results[1:], result_names=joint.result_names[1:])


def slopes(func: Func, args: Sequence[Any], step: float = 1e-3) -> list[np.ndarray]:
    """The gradient of a scalar float64 program by central differences with two Richardson steps."""
    inputs = [np.array(a, NUMPY[i.dtype]) for a, i in zip(args, func.inputs, strict=True)]
    compute, sizes = Reference(func), sizes_of(func, args)
    found = []
    for k in wanted(func):
        flat, slope = inputs[k].reshape(-1), np.zeros(inputs[k].size)
        for p, place in enumerate(flat.tolist()):
            table = []
            for h in (4 * step, 2 * step, step):
                sides = []
                for sign in (1, -1):
                    flat[p] = place + sign * h
                    sides.append(float(compute(sizes, inputs)[0]))
                table.append((sides[0] - sides[1]) / (2 * h))
            flat[p] = place
            once = [(4 * table[r + 1] - table[r]) / 3 for r in range(2)]
            slope[p] = (16 * once[1] - once[0]) / 15
        found.append(slope.reshape(np.shape(inputs[k])))
    return found


def near(got: Sequence[Any], true: Sequence[Any], rtol: float, what: object = "", atol: float = 0.0) -> None:
    """Equal up to rounding at the scale of each result; NaN and infinities stand at the same places."""
    scales = [float(np.abs(b[np.isfinite(b)]).max(initial=0.0)) for b in map(np.asarray, true)]
    for k, (a, b) in enumerate(zip(map(np.asarray, got), map(np.asarray, true), strict=True)):
        assert a.shape == b.shape, (what, k, a.shape, b.shape)
        noise = atol + rtol * scales[k] + 1e-14 * max(scales)
        np.testing.assert_allclose(a, b, rtol=rtol, atol=noise, err_msg=f"{what} result {k}")


def prove(func: Func, args: Sequence[Any], highest: int = 2, rtol: float = 1e-7) -> None:
    """Both backends, before and after the passes, agree; derivatives agree with finite differences."""
    backends(func, args)
    for order, (value, joint) in enumerate(orders(func, highest), 1):
        got = reference(joint, args)
        near(got[1:], slopes(value, args), rtol, f"{func.name}: order {order} against differences", 1e-11)
        backends(joint, args)


def backends(func: Func, args: Sequence[Any], rtol: float = 1e-11) -> None:
    """The interpreter after the passes and the kernels give what the interpreter gives without them."""
    true, sizes = reference(func, args), sizes_of(func, args)
    near(Reference(optimised(func))(sizes, args), true, rtol, f"{func.name} optimised")
    made = compiled(func)
    near(made(sizes, arguments(func, args)), true, rtol, f"{func.name}\n{made.general.kernel.source}")
