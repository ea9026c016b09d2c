"""A backend of the tests: kernels as they are written, run by Python itself, without a compiler; and with the
loops that the compiler from text to LLVM runs several turns of at once (`jam.py`).

It is slow, but starts at once: a thousand random programs are judged in the time that a compiler takes for a
few dozen. So what the schedule and the writer do is tested apart from what compilers make of it.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from types import SimpleNamespace
from typing import Any

import numpy as np
import scipy.special
from compared import leaves, near, totalled
from programs import Program

import adcompiler as adc
from adcompiler.codegen import library
from adcompiler.codegen.cpu import Compiled, Mode
from adcompiler.codegen.kernel import Kernel
from adcompiler.codegen.kernels import Kernels
from adcompiler.codegen.llvm import inorder
from adcompiler.codegen.llvm.jam import Jam
from adcompiler.codegen.materialise import scheduled
from adcompiler.codegen.targets import Finished
from adcompiler.ir.nodes import Func
from adcompiler.ops import bessel, series
from adcompiler.passes.pipeline import KERNEL, run
from adcompiler.runtime.specialise import BACKENDS

WORD = 2**64
RENAMED = {
    "asin": "arcsin", "acos": "arccos", "atan": "arctan", "atan2": "arctan2", "asinh": "arcsinh",
    "acosh": "arccosh", "atanh": "arctanh", "fabs": "abs", "pow": "power",
}  # fmt: skip
SPECIAL = {"erf": "erf", "erfc": "erfc", "gamma": "gamma", "lgamma": "gammaln"}


class Unsigned(int):
    """A whole number of 64 bits: a negative one is huge, so that no comparison takes it for an index."""

    def __new__(cls, value: Any) -> Unsigned:
        return super().__new__(cls, int(value) % WORD)

    def __add__(self, other: Any) -> Unsigned:
        return Unsigned(int(self) + int(other))

    def __sub__(self, other: Any) -> Unsigned:
        return Unsigned(int(self) - int(other))


class _Numbers(ast.NodeTransformer):
    """Literals as NumPy's numbers, which divide by zero."""

    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        if type(node.value) is not float:
            return node
        return ast.Call(ast.Attribute(ast.Name("np", ast.Load()), "float64", ast.Load()), [node], [])


class _Several(ast.NodeTransformer):
    """Loops with several turns at once as loops over whole groups, and over the turns that are left."""

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        return self.generic_visit(inorder.several(node))

    def visit_Jam(self, node: Jam) -> list[ast.stmt]:
        rest = self.visit(ast.For(node.target, node.iter, node.body, []))
        turns = ast.Tuple([ast.Name(t, ast.Store()) for t in node.turns], ast.Store())
        assert isinstance(node.iter, ast.Call)
        bounds = [*node.iter.args, ast.Constant(len(node.turns))]
        groups, left = (ast.Call(ast.Name(n, ast.Load()), bounds, []) for n in ("groups", "left"))
        rest.iter = left
        return [ast.For(turns, groups, [self.visit(s) for s in node.together], []), rest]


def groups(first: int, stop: int, count: int) -> Iterator[range]:
    """The turns of a loop, as many together as asked for."""
    return (range(k, k + count) for k in range(int(first), int(stop) - count + 1, count))


def left(first: int, stop: int, count: int) -> range:
    """The turns that are in no group."""
    return range(max(int(first), int(stop) - (int(stop) - int(first)) % count), int(stop))


def several(tree: ast.Module) -> ast.Module:
    """A kernel with several turns at once of the loops where the compiler does so."""
    return ast.fix_missing_locations(_Several().visit(tree))


def mathematics() -> SimpleNamespace:
    """The functions of `math` that generated code calls, without its exceptions."""
    found = {name: getattr(np, RENAMED.get(name, name), None) for name in vars(math)}
    found |= {name: getattr(scipy.special, other) for name, other in SPECIAL.items()}
    return SimpleNamespace(**{name: f for name, f in found.items() if f is not None})


def namespace() -> dict[str, Any]:
    """What the text of a kernel names."""
    return {
        "math": mathematics(), "np": np, "uint64": Unsigned, "jit": lambda f: f,
        "bessel": bessel, "series": series,
        "select": lambda c, a, b: a if c else b, "fma": lambda x, y, z: x * y + z,
        "mul_rn": lambda x, y: x * y,
        "rsqrt": lambda x: 1 / np.sqrt(x), "reduce_add": lambda a, b: a + b,
        "reduce_max": np.maximum, "reduce_min": np.minimum,
        "groups": groups, "left": left,
        "prange": lambda count: reversed(range(count)),  # in whatever order threads take blocks
        **{n: f for n, f in vars(library).items() if n.startswith("library_")},
    }  # fmt: skip


def reordered(kernel: Kernel) -> str:
    """A kernel's functions, with blocks that threads may share in another order than their own."""
    return re.sub(
        r"for block in range\((blocks\d+)\):  # nest (\d+)$",
        lambda m: m[0] if int(m[2]) in kernel.sequential else f"for block in prange({m[1]}):  # nest {m[2]}",
        kernel.text,
        flags=re.MULTILINE,
    )


class PlainKernel(Compiled):
    """A program whose kernel Python runs."""

    @cached_property
    def serial(self) -> Callable[..., Sequence[Any]]:
        found = namespace()
        tree = several(_Numbers().visit(ast.parse(reordered(self.kernel))))
        exec(compile(tree, "<kernel>", "exec"), found)  # our own text

        def call(*args: Any) -> Sequence[Any]:
            with np.errstate(all="ignore"):
                return found["run"](*args)

        return call

    @property
    def parallel(self) -> Callable[..., Sequence[Any]]:
        return self.serial


class _Plain(Finished):
    """The target: kernels that Python runs."""

    def compiled(self, func: Func, mode: Mode, plain: Compiled | None) -> PlainKernel:
        made = scheduled(func) if plain is None else plain.made
        return PlainKernel(made, mode=mode, plain=plain)


def executable(func: Func, **_: Any) -> Kernels:
    """The backend."""
    return Kernels(_Plain(), run(KERNEL, func))


@contextmanager
def plain_kernels() -> Iterator[str]:
    """The name of the backend, while it is there."""
    BACKENDS["plain"] = executable
    yield "plain"
    del BACKENDS["plain"]


def kernels_hold(program: Program) -> None:
    """The kernels of a program and of its gradient, as they are written, against the interpreter."""
    total = totalled(program)
    with plain_kernels() as plain:
        written, expected = (adc.compile(total.source, backend=b) for b in (plain, "numpy"))
        near(written(*total.args), expected(*total.args), 1e-9)
        for one, other in zip(
            leaves(adc.grad(written)(*total.args)), leaves(adc.grad(expected)(*total.args)), strict=True
        ):
            size = np.max(np.abs(other), initial=1.0, where=np.isfinite(other))
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9 * size)
