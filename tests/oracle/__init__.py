"""The test oracle: adc sources, run by Python's own interpreter.

It imports nothing from adcompiler, so the compiler is never its own judge. A source is parsed by
Python's `ast`, `oracle_translate` makes every operator and builtin a call into `oracle_builtins`, and
Python compiles that. Run on NumPy's values it gives the value of a program; run on reals of a hundred
digits, central differences with a step of 2**-50 give its derivatives of any order, right to all digits
of a float.

    evaluate(source, *args)                 the value
    derivative(source, args, directions)    a mixed directional derivative of any order, and its error
    gradient, jacobian, hessian             structured as the package's own are

All take `name` (which def; the last one otherwise), `order` (the parameters of a bare expression) and
`static` (parameters whose Python ints stay ints). `x[i] = v` and `x += v` change the array itself, as NumPy
does, and so all names that share it; the arguments are copied first. `surroundings.source_of(f)` is the
source of a Python function, whose names are the objects that they are bound to.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from oracle.builtins import EXACT, Value, copied, mp
from oracle.translate import Program, mangled, translate

Wrt = str | int | tuple[str | int, ...] | None

STEP = mp.mpf(2) ** -50


def prepared(program: Program, args: Sequence[Value], kwargs: dict[str, Value]) -> list[Value]:
    """The arguments by position, Python ints as floats where the parameter is not whole."""
    named = {mangled(key): value for key, value in kwargs.items()}
    defaults = program.function.__defaults__ or ()
    left_out = dict(zip(program.parameters[::-1], defaults[::-1], strict=False))
    values = left_out | dict(zip(program.parameters, args, strict=False)) | named
    if len(args) > len(program.parameters) or set(values) != set(program.parameters):
        raise TypeError(f"the program takes {program.parameters}")
    ordered = [(name, values[name]) for name in program.parameters]
    return [float(v) if type(v) is int and name not in program.whole else v for name, v in ordered]


def evaluate(
    source: str | bytes,
    *args: Value,
    name: str | None = None,
    order: Sequence[str] | None = None,
    static: Sequence[str] = (),
    **kwargs: Value,
) -> Value:
    """The result of a source at the arguments: a Python number, NumPy scalar, array, or tuple of those."""
    program = translate(source, name, order and tuple(order), tuple(static))
    with np.errstate(all="ignore"):
        return program.function(*copied(prepared(program, args, kwargs)))


# ---- Derivatives ----


def is_differentiable(value: Value) -> bool:
    return isinstance(value, float) or getattr(value, "dtype", np.dtype(int)).kind == "f"


def exact(value: Value) -> Value:
    """A value with its floats as exact reals; anything else as it is."""
    return np.frompyfunc(mp.mpf, 1, 1)(np.asarray(value, object)) if is_differentiable(value) else value


def rounded(value: Value) -> Value:
    """Exact reals as float64; a scalar as a Python float."""
    value = np.asarray(value, dtype=object).astype(np.float64)
    return value if value.ndim else value.item()


class Exact:
    """A program on exact reals; its result is always a tuple."""

    def __init__(self, source: str | bytes, args: Sequence[Value], **options: Any) -> None:
        settings = {"name": None, "order": None, "static": ()} | options
        order = settings["order"] and tuple(settings["order"])
        self.program = translate(source, settings["name"], order, tuple(settings["static"]))
        self.given = prepared(self.program, args, {})
        self.point = [exact(value) for value in self.given]
        self.bare = True

    def __call__(self, point: Sequence[Value]) -> tuple[Value, ...]:
        EXACT.append(True)
        try:
            with np.errstate(all="ignore"):
                result = self.program.function(*copied(list(point)))
        finally:
            EXACT.pop()
        self.bare = not isinstance(result, tuple)
        return (result,) if self.bare else result

    def moved(self, point: Sequence[Value], direction: Sequence[Value], by: Value) -> list[Value]:
        pairs = zip(point, direction, strict=True)
        return [x if d is None else x + exact(np.asarray(d, float)) * by for x, d in pairs]

    def difference(self, directions: Sequence[Sequence[Value]], shift: int = 0) -> tuple[Value, ...]:
        """Σ Π signs · f(x + h Σ sign·direction) / (2h)^k over all signs, at x + shift·h Σ i·direction_i."""
        total: list[Value] | None = None
        for signs in itertools.product((1, -1), repeat=len(directions)):
            point = self.point
            for i, (sign, direction) in enumerate(zip(signs, directions, strict=True)):
                point = self.moved(point, direction, (sign + shift * (i + 1)) * STEP)
            terms = [math.prod(signs) * np.asarray(value, object) for value in self(point)]
            total = terms if total is None else [a + b for a, b in zip(total, terms, strict=True)]
        return tuple(value / (2 * STEP) ** len(directions) for value in total or [])

    def inputs(self, wrt: Wrt) -> list[int]:
        """The positions of the inputs that `wrt` means."""
        if wrt is None:
            return [i for i, value in enumerate(self.given) if is_differentiable(value)]
        chosen = wrt if isinstance(wrt, tuple) else (wrt,)
        names = self.program.parameters
        return [names.index(mangled(c)) if isinstance(c, str) else range(len(names))[c] for c in chosen]

    def units(self, position: int) -> list[list[Value]]:
        """The directions of every entry of one input."""
        shape = np.shape(self.point[position])
        size = math.prod(shape)
        none: list[Value] = [None] * len(self.point)
        rows = np.eye(size).reshape(size, *shape)
        return [[*none[:position], row, *none[position + 1 :]] for row in rows]


def structured(blocks: Sequence[Value], wrt: Wrt) -> Value:
    """One block an input: bare where `wrt` names one, or is None and there is but one."""
    return blocks[0] if len(blocks) == 1 and not isinstance(wrt, tuple) else tuple(blocks)


def derivative(
    source: str | bytes, args: Sequence[Value], directions: Sequence[Sequence[Value]], **options: Any
) -> tuple[Value, float]:
    """The mixed derivative of the result along `directions`, each of one array (or None) an argument.

    The error is the change of the derivative over a distance of a few steps: tiny where the program is
    smooth, and as large as the jump at a kink, where a central difference means nothing.
    """
    program = Exact(source, args, **options)
    here, beside = program.difference(directions), program.difference(directions, shift=1)
    gaps = [abs(a - b) for a, b in zip(map(np.asarray, here), beside, strict=True)]
    error = max((float(gap) for gap_array in gaps for gap in np.ravel(gap_array)), default=0.0)
    values = tuple(map(rounded, here))
    return (values[0] if program.bare else values), error


def contracted(values: Sequence[Value], cotangents: Value) -> Value:
    """Σ cotangent · value over all entries of all results; cotangents of ones where there are none."""
    given = cotangents if isinstance(cotangents, tuple) else (cotangents,) * len(values)
    pairs = ((v, 1 if c is None else exact(np.asarray(c, float))) for v, c in zip(values, given, strict=True))
    return sum((np.sum(np.asarray(v, object) * c) for v, c in pairs), mp.zero)


def gradient(
    source: str | bytes, args: Sequence[Value], wrt: Wrt = None, cotangents: Value = None, **options: Any
) -> Value:
    """The gradient of the sum of all results, or of their product with `cotangents`, structured by `wrt`.

    At a kink it is the mean of both sides' slopes.
    """
    program = Exact(source, args, **options)
    blocks = []
    for position in program.inputs(wrt):
        entries = [contracted(program.difference([unit]), cotangents) for unit in program.units(position)]
        blocks.append(rounded(np.array(entries, object).reshape(np.shape(program.point[position]))))
    return structured(blocks, wrt)


def jacobian(source: str | bytes, args: Sequence[Value], wrt: Wrt = None, **options: Any) -> Value:
    """[output][input] blocks of shape output.shape + input.shape; bare for one output, and as `wrt` says."""
    program = Exact(source, args, **options)
    results = program(program.point)
    rows: list[list[Value]] = [[] for _ in results]
    for position in program.inputs(wrt):
        columns = [program.difference([unit]) for unit in program.units(position)]
        shape = np.shape(program.point[position])
        for k, result in enumerate(results):
            block = np.zeros((*np.shape(result), len(columns)), dtype=object)
            for j, column in enumerate(columns):
                block[..., j] = column[k]
            rows[k].append(rounded(block.reshape((*np.shape(result), *shape))))
    outputs = tuple(structured(row, wrt) for row in rows)
    return outputs[0] if program.bare else outputs


def hessian(
    source: str | bytes, args: Sequence[Value], wrt: Wrt = None, cotangents: Value = None, **options: Any
) -> Value:
    """[input][input] blocks of shape input_i.shape + input_j.shape of what `gradient` differentiates."""
    program = Exact(source, args, **options)
    positions = program.inputs(wrt)
    units = [unit for position in positions for unit in program.units(position)]
    full = np.empty((len(units), len(units)), dtype=object)
    for i, j in itertools.combinations_with_replacement(range(len(units)), 2):
        full[i, j] = full[j, i] = contracted(program.difference([units[i], units[j]]), cotangents)
    shapes = [np.shape(program.point[position]) for position in positions]
    ends = list(itertools.accumulate(map(math.prod, shapes), initial=0))
    parts = [(slice(*ends[i : i + 2]), shape) for i, shape in enumerate(shapes)]
    rows = [[rounded(full[a, b].reshape(s + t)) for b, t in parts] for a, s in parts]
    return structured([structured(row, wrt) for row in rows], wrt)
