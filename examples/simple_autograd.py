"""The notebook "Simple Autograd" with adcompiler: every cell, and the exercises at its end.

Its subject is an aggregate operator, `simple(a, b) = (a + b) * b`, whose propagate is written by
hand, wrong in instructive ways, until derivatives of higher order are right as well. The last
version here is the generated one: adcompiler writes forward and propagate from the formula.

    python examples/simple_autograd.py          the results
    python examples/simple_autograd.py --trace  every operation as well
"""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from typing import NamedTuple

import numpy as np

import adcompiler as adc
from adcompiler import Variable, tape

Cotangents = list[Variable | None]
Operator = Callable[[Variable, Variable], Variable]


class Draw(NamedTuple):
    """The random numbers of one run of the notebook."""

    a: tuple[float, ...]
    b: tuple[float, ...]


FIRST = Draw((0.4605, 0.4061, 0.9422, 0.3946), (0.0850, 0.3296, 0.9888, 0.6494))
SECOND = Draw((0.0171, 0.1633, 0.5833, 0.3794), (0.3774, 0.6308, 0.5239, 0.1387))


def text(value: Variable | None) -> str:
    return "None" if value is None else np.array2string(value.value, precision=4, separator=", ")


def begin(draw: Draw) -> tuple[Variable, Variable]:
    """A new tape, and a and b on it."""
    tape.reset()
    a, b = Variable(draw.a, name="a"), Variable(draw.b, name="b")
    for v in (a, b):
        print(f"{v.name} = {text(v)}")
    return a, b


# -- using grad --------------------------------------------------------------------------------


def simple(a: Variable, b: Variable) -> Variable:
    t = a + b
    return t * b


def first_gradients(draw: Draw = SECOND) -> Cotangents:
    """The notebook's first call of `grad`: of an array, so ones are its cotangent."""
    a, b = begin(draw)
    loss = simple(a, b)
    return tape.grad(loss, [a, b], create_graph=True)


def zero_gradients(draw: Draw = SECOND) -> Cotangents:
    """b does not contribute: its gradient is None, which is known to be zero in constant time."""
    a, b = begin(draw)
    loss = a * a
    return tape.grad(loss, [a, b], create_graph=True)


def run_gradients(my_fn: Operator, second_loss: bool = True, draw: Draw = FIRST) -> Cotangents:
    """The gradient of a loss; then the gradient of a second loss, that gradient's squared norm."""
    a, b = begin(draw)

    # our first loss
    L0 = (my_fn(a, b)).sum(name="L0")

    # compute derivatives of our inputs
    dL0_da, dL0_db = tape.grad(L0, [a, b], create_graph=True)
    if not second_loss:
        return [dL0_da, dL0_db]

    # now compute the squared norm of our derivatives, and take the gradient of that
    L1 = (dL0_da * dL0_da + dL0_db * dL0_db).sum(name="L1")
    return tape.grad(L1, [a, b], create_graph=True)


# -- aggregates by hand ------------------------------------------------------------------------


def simple_type_error(a: Variable, b: Variable) -> Variable:
    """propagate computes with t, a plain array: a constant to any further derivative. That is refused."""
    t = a.value + b.value
    r = Variable(t * b.value)

    def propagate(dL_doutputs: Cotangents) -> Cotangents:
        (dL_dr,) = dL_doutputs
        dL_dt = dL_dr * b
        return [dL_dt * 1.0, dL_dt * 1.0 + dL_dr * t]  # t is no Variable

    tape.record([a, b], [r], propagate)
    return r


def simple_recompute(a: Variable, b: Variable) -> Variable:
    """propagate computes t again from Variables: right, but the work is done twice and `a` is kept for it."""
    r = Variable((a.value + b.value) * b.value)

    def propagate(dL_doutputs: Cotangents) -> Cotangents:
        (dL_dr,) = dL_doutputs
        t = a + b
        dL_dt = dL_dr * b
        return [dL_dt * 1.0, dL_dt * 1.0 + dL_dr * t]

    tape.record([a, b], [r], propagate)
    return r


def simple_variable_wrong(a: Variable, b: Variable) -> Variable:
    """t is a Variable, but no output: its use in propagate is a path to `a` that nobody records."""
    t = a.value + b.value
    t_v = Variable(t, name="t")
    r = Variable(t * b.value)

    def propagate(dL_doutputs: Cotangents) -> Cotangents:
        (dL_dr,) = dL_doutputs
        dL_dt = dL_dr * b
        return [dL_dt * 1.0, dL_dt * 1.0 + dL_dr * t_v]

    tape.record([a, b], [r], propagate)
    return r


def simple_variable_almost(a: Variable, b: Variable) -> Variable:
    """t is an output, with a cotangent of its own: right. Zeros in place of None cost work each time."""
    t = a.value + b.value
    t_v = Variable(t, name="t_v")
    r = Variable(t * b.value)

    def propagate(dL_doutputs: Cotangents) -> Cotangents:
        dL_dr, dL_dt0 = (Variable(np.zeros(())) if g is None else g for g in dL_doutputs)
        dL_dt = dL_dt0 + dL_dr * b
        return [dL_dt * 1.0, dL_dr * t_v + dL_dt * 1.0]

    tape.record([a, b], [r, t_v], propagate)
    return r


def add_optional(a: Variable | None, b: Variable | None) -> Variable | None:
    """A sum in which None is zero (AutogradAdd in TorchScript)."""
    if a is None or b is None:
        return b if a is None else a
    return a + b


def simple_variable(a: Variable, b: Variable) -> Variable:
    """The notebook's last version: None is handled where it turns up, throughout propagate."""
    t = a.value + b.value
    t_v = Variable(t, name="t_v")
    r = Variable(t * b.value)

    def propagate(dL_doutputs: Cotangents) -> Cotangents:
        dL_dr, dL_dt = dL_doutputs
        dL_db = None
        if dL_dr is not None:
            dL_dt = add_optional(dL_dt, dL_dr * b)
            dL_db = dL_dr * t_v
        return [dL_dt, add_optional(dL_db, dL_dt)]

    tape.record([a, b], [r, t_v], propagate)
    return r


# -- the aggregate, generated ------------------------------------------------------------------


def generated(backend: str = "cpu") -> adc.Function:
    """`simple`, compiled: called with Variables it is one entry, with `t` among its outputs."""
    return adc.compile("def simple(a, b):\n    t = a + b\n    return t * b\n", backend=backend)


# -- the exercises -----------------------------------------------------------------------------


def run_both(my_fn: Operator, draw: Draw = FIRST) -> Cotangents:
    """`run_gradients` with two characters more, *a: in the second pass both dL_dr and dL_dt have a value."""
    a, b = begin(draw)
    L0 = (my_fn(a, b)*a).sum(name="L0")  # fmt: skip
    dL0_da, dL0_db = tape.grad(L0, [a, b], create_graph=True)
    L1 = (dL0_da * dL0_da + dL0_db * dL0_db).sum(name="L1")
    return tape.grad(L1, [a, b], create_graph=True)


def simple_variable_top(a: Variable, b: Variable) -> Variable:
    """All branches on None at the top of propagate, each with straight-line code below it.

    This is what the compiler generates (see `generated().show("propagate")`), for any number of
    cotangents; each straight line is a fused kernel there, compiled when its pattern is first seen.
    """
    t = a.value + b.value
    t_v = Variable(t, name="t_v")
    r = Variable(t * b.value)

    def propagate(dL_doutputs: Cotangents) -> Cotangents:
        dL_dr, dL_dt = dL_doutputs
        if dL_dr is None:
            return [dL_dt, dL_dt]
        if dL_dt is None:
            dL_da = dL_dr * b
            return [dL_da, dL_dr * t_v + dL_da]
        dL_da = dL_dt + dL_dr * b
        return [dL_da, dL_dr * t_v + dL_da]

    tape.record([a, b], [r, t_v], propagate)
    return r


def softsign(x: Variable) -> Variable:
    """A new operator, x / (1 + |x|), with its propagate: dr/dx = 1 / (1 + |x|)**2."""
    r = Variable(x.value / (1 + abs(x.value)))

    def propagate(dL_doutputs: Cotangents) -> Cotangents:
        (dL_dr,) = dL_doutputs
        return [dL_dr / (1 + abs(x)) ** 2]

    tape.record([x], [r], propagate)
    return r


def gaussian(a: Variable, b: Variable) -> Variable:
    """Another aggregate by hand, exp(-(a - b)**2). Its propagate reads its temporary d and its result."""
    d = Variable(a.value - b.value, name="d")
    r = Variable(np.exp(-(d.value**2)))

    def propagate(dL_doutputs: Cotangents) -> Cotangents:
        dL_dr, dL_dd = dL_doutputs
        if dL_dr is not None:
            dL_dd = add_optional(dL_dd, dL_dr * r * d * -2.0)
        return [dL_dd, -dL_dd]

    tape.record([a, b], [r, d], propagate)
    return r


def grad_with_zeros(loss: Variable, wanted: Sequence[Variable]) -> list[Variable]:
    """`grad` without None: zeros where no path leads to the loss, as mathematics has it."""
    found = tape.grad(loss, wanted, create_graph=True)
    return [Variable(np.zeros(v.shape)) if g is None else g for v, g in zip(wanted, found, strict=True)]


def forward_mode(f: Callable[[Variable], Variable], x: Variable, direction: Variable) -> Variable | None:
    """A weird gradient: one with respect to a cotangent. vjp is linear in it, so this is the jvp."""
    y = f(x)
    cotangent = Variable(np.zeros(y.shape))
    dx = tape.grad(y, x, cotangent, create_graph=True)
    return tape.grad(dx, cotangent, direction, create_graph=True)


def mixed_orders(a: Variable, b: Variable) -> Cotangents:
    """A weirder one: a loss that mixes a value, a gradient and a gradient of a gradient."""
    L0 = simple(a, b).sum(name="L0")
    dL0_da, dL0_db = tape.grad(L0, [a, b], create_graph=True)
    L1 = (dL0_da * dL0_db * a).sum(name="L1")
    (dL1_db,) = tape.grad(L1, [b], create_graph=True)
    L2 = (L0 * (dL1_db * dL1_db).sum()) + (dL0_db * a).sum()
    return tape.grad(L2, [a, b], create_graph=True)


def operations(run: Callable[[], object]) -> int:
    """How many operations a run computes: the lines of its trace."""
    with redirect_stdout(io.StringIO()) as printed, tape.trace():
        run()
    lines = printed.getvalue().splitlines()
    return sum(line.startswith(("v", "L")) and " = " in line for line in lines)


# -- all of it ---------------------------------------------------------------------------------


def report(title: str, found: Cotangents) -> None:
    print(f"{title}\n  da {text(found[0])}\n  db {text(found[1])}\n")


def main() -> None:
    report("the gradient of simple", first_gradients())
    report("of a * a: None, for b does not contribute", zero_gradients())
    report("a gradient of a gradient", run_gradients(simple))

    try:
        run_gradients(simple_type_error)
    except adc.GraphError as error:
        print(f"simple_type_error: {error}\n")
    report("simple_recompute: right, at the price of a recomputation", run_gradients(simple_recompute))
    report(
        "simple_variable_wrong: right at first order", run_gradients(simple_variable_wrong, second_loss=False)
    )
    report("simple_variable_wrong: WRONG at second order, da is None", run_gradients(simple_variable_wrong))
    for by_hand in (simple_variable_almost, simple_variable, simple_variable_top):
        report(f"{by_hand.__name__}: right", run_gradients(by_hand, draw=SECOND))

    compiled = generated()
    report("the generated aggregate: right", run_gradients(compiled, draw=SECOND))
    report("with *a, where dL_dr and dL_dt both flow", run_both(compiled))
    print(compiled.show("propagate"))
    for f in (simple_variable_almost, simple_variable, compiled):
        count = operations(lambda f=f: run_gradients(f))
        print(f"{count:3} operations with {f.__name__}")


if __name__ == "__main__":
    tape.verbose("--trace" in sys.argv[1:])
    main()
