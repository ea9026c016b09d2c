"""A backend of the tests: kernels as they are written, run by Python itself, without a compiler; and with the
loops that the compiler from text to LLVM runs several iterations of at once (`unroll_and_jam.py`).

It is slow, but starts at once: a thousand random programs are judged in the time that a compiler takes for a
few dozen. So what the schedule and the writer do is tested apart from what compilers make of it.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from types import SimpleNamespace
from typing import Any

import numpy as np
import scipy.special
from judges.compared import leaves, near, totalled
from programs import Program

import adcompiler as adc
from adcompiler.ir.nodes import Func
from adcompiler.kernels.routines import library
from adcompiler.kernels.schedule.materialise import Scheduled
from adcompiler.loopir.nodes import Assign, Binary, Call, Expr, For, Function, Invoke, Stmt, Var, literal
from adcompiler.loopir.printer import source
from adcompiler.loopir.rewrite import Rewriter
from adcompiler.loopir.transformed_loops import Jam
from adcompiler.loopir.transforms.interleaved_unrolling import interleaved
from adcompiler.loopir.transforms.unroll_and_jam import jammed
from adcompiler.ops.rules import bessel, incomplete, series
from adcompiler.passes.pipeline import KERNEL, run
from adcompiler.runtime.programs.backends import BACKENDS
from adcompiler.targets.cpu.compiled import CpuKernel, Mode
from adcompiler.targets.cpu.kernels import KernelSelector
from adcompiler.targets.cpu.targets import Finished

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


class _Plain(Rewriter):
    """Loops with several iterations at once as loops over groups, and over the iterations that are left;
    names are Python's; and the blocks of nests that threads may share in another order than their own."""

    def __init__(self, sequential: Collection[str]) -> None:
        self.sequential = sequential

    def name(self, name: str) -> str:
        return name.replace(".", "__")

    def body(self, found: Iterable[Stmt]) -> list[Stmt]:
        return [made for s in found for made in (self.jam(s) if isinstance(s, Jam) else [self.stmt(s)])]

    def jam(self, s: Jam) -> list[Stmt]:
        """As many groups as there are, and the rest."""
        start, stop, group = self.expr(s.start), self.expr(s.stop), Var(f"{s.axis}__")
        whole = Call("whole", (start, stop, literal(len(s.axes))))
        axes = [Assign(self.name(a), Binary("+", group, literal(k))) for k, a in enumerate(s.axes)]
        together = [*axes, *self.body(s.together)]
        return [
            For(group.name, start, whole, together, literal(len(s.axes))),
            For(s.axis, whole, stop, self.body(s.body)),
        ]

    def stmt(self, s: Stmt) -> Stmt:
        match s:
            case For(axis=axis, body=[Invoke(name=name) as call], kind="blocks") if (
                name not in self.sequential
            ):
                return For("back", s.start, s.stop, [Assign(axis, _before(s.stop, Var("back"))), call])
        return super().stmt(s)


def _before(stop: Expr, back: Expr) -> Expr:
    return Binary("-", Binary("-", stop, literal(1)), back)


def whole(first: int, stop: int, count: int) -> int:
    """Where the iterations of a loop end that are in whole groups."""
    return int(first) + max(int(stop) - int(first), 0) // count * count


def plain(function: Function, sequential: Collection[str] = ()) -> Function:
    """A function in Python's words, with the loops with several iterations at once in place."""
    return replace(function, body=_Plain(sequential).body(function.body))


def ran(found: Sequence[Function], numbers: bool = True) -> dict[str, Any]:
    """What functions define when Python runs them."""
    defined = namespace()
    tree = ast.parse("\n".join(map(source, found)))
    tree = ast.fix_missing_locations(_Numbers().visit(tree) if numbers else tree)
    exec(compile(tree, "<kernel>", "exec"), defined)  # our own text
    return defined


def mathematics() -> SimpleNamespace:
    """The functions of `math` that generated code calls, without its exceptions."""
    found = {name: getattr(np, RENAMED.get(name, name), None) for name in vars(math)}
    found |= {name: getattr(scipy.special, other) for name, other in SPECIAL.items()}
    return SimpleNamespace(**{name: f for name, f in found.items() if f is not None})


def namespace() -> dict[str, Any]:
    """What the text of a kernel names."""
    return {
        "math": mathematics(), "np": np, "uint64": Unsigned, "jit": lambda f: f,
        "bessel": bessel, "incomplete": incomplete, "series": series,
        "select": lambda c, a, b: a if c else b, "fma": lambda x, y, z: x * y + z,
        "mul_rn": lambda x, y: x * y,
        "rsqrt": lambda x: 1 / np.sqrt(x), "reduce_add": lambda a, b: a + b,
        "reduce_max": np.maximum, "reduce_min": np.minimum,
        "whole": whole,
        **{n: f for n, f in vars(library).items() if n.startswith("library_")},
    }  # fmt: skip


class PlainKernel(CpuKernel):
    """A program whose kernel Python runs."""

    @cached_property
    def serial(self) -> Callable[..., Sequence[Any]]:
        sequential = {f"nest{k}" for k in self.kernel.sequential}
        made = [plain(interleaved(jammed(f)), sequential) for f in self.kernel.bare]
        found = ran(made)

        def call(*args: Any) -> Sequence[Any]:
            with np.errstate(all="ignore"):
                return found["run"](*args)

        return call

    @property
    def parallel(self) -> Callable[..., Sequence[Any]]:
        return self.serial


class _PlainTarget(Finished):
    """The target: kernels that Python runs."""

    def compiled(self, made: Scheduled, mode: Mode, plain: CpuKernel | None) -> PlainKernel:
        return PlainKernel(made, mode=mode, plain=plain)


def executable(func: Func, optimised: Callable[[Func], Func] = lambda func: func, **_: Any) -> KernelSelector:
    """The backend."""
    return KernelSelector(_PlainTarget(), run(KERNEL, optimised(func)))


@contextmanager
def plain_kernels() -> Iterator[str]:
    """The name of the backend, while it is there."""
    BACKENDS["plain"] = executable
    yield "plain"
    del BACKENDS["plain"]


def kernels_hold(program: Program) -> None:
    """The kernels of a program and of its gradient, as they are written, against the interpreter."""
    total = totalled(program)
    with plain_kernels() as backend:
        written, expected = (adc.compile(total.source, backend=b) for b in (backend, "numpy"))
        near(written(*total.args), expected(*total.args), 1e-9)
        for one, other in zip(
            leaves(adc.grad(written)(*total.args)), leaves(adc.grad(expected)(*total.args)), strict=True
        ):
            size = np.max(np.abs(other), initial=1.0, where=np.isfinite(other))
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9 * size)
