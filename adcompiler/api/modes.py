"""More modes of differentiation: forward mode, Hessian-vector products, Jacobians and Hessians."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal, overload

from adcompiler.ad.jvp import value_and_tangent
from adcompiler.ad.programs.jacobians import forward_is_cheaper, forward_jacobian
from adcompiler.ad.programs.jacobians import jacobian as dense_jacobian
from adcompiler.api.function import Function
from adcompiler.api.sparse import SparseDerivative, SparseHessian
from adcompiler.api.transforms import Derived, Gradient, by, compiled, grad
from adcompiler.errors import DtypeError, ShapeError
from adcompiler.frames import public
from adcompiler.frontend.lowering.program import Lowered
from adcompiler.ir.naming import distinct
from adcompiler.ir.nodes import Array, Func
from adcompiler.ir.textform.printer import short_lengths
from adcompiler.lazy import Memo
from adcompiler.public_types import Values, Wrt
from adcompiler.pytree.containers import Container
from adcompiler.pytree.kinds import ArgType, Types
from adcompiler.pytree.structures import grafted, places_of
from adcompiler.pytree.trees import leaves_by_path
from adcompiler.runtime.arguments.ragged_arrays import check_tangents, refuse
from adcompiler.runtime.arguments.signature import ArgumentError, Described, adapter_in
from adcompiler.runtime.arguments.tangents import like
from adcompiler.runtime.programs.call_lengths import nominal
from adcompiler.runtime.programs.program import Program
from adcompiler.runtime.reports.show import default_types

NOTHING = "nothing to differentiate"


class Tangent(Derived):
    """The tangent, preceded by the value if wanted; takes the arguments, then a tangent for each in `wrt`."""

    def __init__(self, of: Function, wrt: tuple[int, ...], with_value: bool = True) -> None:
        super().__init__(of, wrt, "jvp", [f"d{of._parameters[k].name}" for k in wrt])
        self._with_value = with_value

    def _trace(self, types: Types) -> Lowered:
        own, tangents = self._parted(types)
        lowered = self._of._trace(own)
        given = [t for k, d in zip(self._wrt, tangents, strict=True) for t in given_floats(own[k], d)]
        floats = self._of._inputs_of(self._wrt, own)
        wanted = [k for k, here in zip(floats, given, strict=True) if here]
        made = value_and_tangent(lowered.func, wanted, self._with_value).with_(name=self.__name__)
        one = lowered.structure
        return self._lowered(lowered, made, (one, one) if self._with_value else one)


class Jacobian(Derived):
    """The dense derivative of every output with respect to every input in `wrt`."""

    def __init__(self, of: Function, wrt: Any, prefix: str) -> None:
        super().__init__(of, wrt, prefix)
        self.lengths: Memo[Types, tuple[int, ...]] = Memo()  # of the first call: which mode is cheaper

    def _first_call(self, types: Types, values: Sequence[Any]) -> None:
        self.lengths.made(
            types, lambda: tuple(Program.of(self._of._trace(types), self._backend).sizes(values))
        )

    def _how(self, types: Types) -> str:
        func = self._of._trace(types).func
        inputs = [func.inputs[k] for k in self._of._wanted(self._wrt, types)[1]]
        if not (inputs and func.results):
            return NOTHING
        if forward_is_cheaper(func.results, inputs, nominal(self.lengths.get(types))):
            return f"forward mode: one direction per entry of {_entries(func, inputs)}, at once"
        return f"reverse mode: one cotangent per entry of {_entries(func, func.results)}, at once"

    def _trace(self, types: Types) -> Lowered:
        lowered = self._of._trace(types)
        func = lowered.func
        positions, inputs = self._of._wanted(self._wrt, types)
        refuse("jacobian", [types[k] for k in positions])
        blocks = dense_jacobian(func, inputs, nominal(self.lengths.get(types)))
        structure = grafted(lowered.structure, self._places(positions, types), [r.rank for r in func.results])
        return _dense(self, lowered, func, blocks, structure)


class Hessian(Derived):
    """The second derivative of a scalar function: forward mode over its reverse-mode gradient."""

    def _how(self, types: Types) -> str:
        func = self._of._trace(types).func
        inputs = [func.inputs[k] for k in self._of._wanted(self._wrt, types)[1]]
        if not inputs:
            return NOTHING
        return f"forward over reverse mode: one direction per entry of {_entries(func, inputs)}, at once"

    def _trace(self, types: Types) -> Lowered:
        gradient = Gradient(self._of, self._wrt, "grad")
        lowered = gradient._trace(types)
        func = lowered.func
        positions, wanted = self._of._wanted(self._wrt, types)
        refuse("hessian", [types[k] for k in positions])
        inputs = [func.inputs[k] for k in wanted]
        blocks = forward_jacobian(func, inputs)
        row = self._places(positions, types)
        structure = grafted(row, row, [i.rank for i in inputs])
        return _dense(self, lowered, func, blocks, structure)


def _entries(func: Func, arrays: Sequence[Array]) -> str:
    """Inputs or results with their lengths: `x[n], s`."""
    names = dict(zip((*func.inputs, *func.results), (*func.input_names, *func.result_names), strict=True))
    shapes = [", ".join(short_lengths(func, a.shape)) for a in arrays]
    return ", ".join(f"{names[a]}[{s}]" if s else names[a] for a, s in zip(arrays, shapes, strict=True))


def _dense(
    f: Derived, lowered: Lowered, func: Func, blocks: Sequence[Sequence[Any]], structure: Any
) -> Lowered:
    results = tuple(block for row in blocks for block in row)
    names = [f"j{p}_{q}" for p, row in enumerate(blocks) for q, _ in enumerate(row)]
    taken = set(f._names) | {*func.input_names}
    made = func.with_(name=f.__name__, results=results, result_names=distinct(names, taken))
    return f._lowered(lowered, made, structure)


def given_floats(kind: Any, tangent: Any) -> list[bool]:
    """For each float of an argument, whether it has a tangent; None means none."""
    if isinstance(kind, Container) and isinstance(tangent, Container):
        return [
            given for pair in zip(kind.parts, tangent.parts, strict=True) for given in given_floats(*pair)
        ]
    return [isinstance(tangent, ArgType) for _, k in leaves_by_path("", kind) if places_of(k) is None]


@public
def jvp(f: Function, args: Sequence[Values], tangents: Sequence[Values]) -> tuple[Values, Values]:
    """The value of `f` at `args` and its directional derivative along `tangents`: (value, tangent).

    `tangents` has one entry for each argument, shaped like it; None means zero, also inside a
    container. Raises ShapeError for a tangent of another shape or structure, DtypeError for a tangent of an
    argument that is not a float.
    """
    value, tangent = _pushed(f, args, tangents, with_value=True)
    return value, tangent


def _pushed(f: Function, args: Sequence[Any], tangents: Sequence[Any], with_value: bool) -> Any:
    """The value and the tangent of `f`, or the tangent alone: a separate program."""
    args, tangents = paired("jvp", args, "tangents", tangents)
    f = compiled("jvp", f)
    args, given = directed(f, args, tangents)
    wrt = tuple(given)
    pushed = f._derived(("jvp", wrt, with_value), lambda: Tangent(f, wrt, with_value))
    return pushed(*args, *given.values())


def paired(what: str, args: Any, name: str, directions: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Arguments, and a direction for each of them, which the caller calls `name`."""
    args, directions = as_tuple(what, "args", args), as_tuple(what, name, directions)
    if len(args) != len(directions):
        one = name.removesuffix("s")
        cause = f"{len(args)} arguments but {len(directions)} {one}s"
        raise ShapeError(cause, remedy=f"pass a {one} for each argument; None means zero")
    return args, directions


def directed(
    f: Function, args: Sequence[Any], directions: Sequence[Any]
) -> tuple[tuple[Any, ...], dict[int, Any]]:
    """All arguments of a function, and the directions by parameter, in the structure and types of these; none
    where it is zero."""
    args = f._in_order(args)
    directions = (*directions, *[None] * (len(args) - len(directions)))
    triples = zip(f._parameters, args, directions, strict=True)
    args = tuple(float(a) if p.numba and d is not None and type(a) is int else a for p, a, d in triples)
    call = _described(f, args)
    wrt = f._positions(tuple(k for k, d in enumerate(directions) if d is not None), call.types)
    check_tangents(f._parameters, call.types, call.values, directions)
    found = {k: directed_like(f, k, directions[k], call) for k in wrt}
    return args, {k: d for k, d in found.items() if d is not None}


def directed_like(f: Function, k: int, direction: Any, call: Described) -> Any:
    """The direction of one parameter in the structure and types of its argument."""
    floats = [call.values[n] for n in f._inputs_of((k,), call.types)]
    return like(direction, floats, call.types[k], f._parameters[k].name)


def _described(f: Function, args: Sequence[Any]) -> Described:
    """The arguments of a call; arrays that only their library reads have only types and shapes."""
    return f._describe(args, stand_in=getattr(adapter_in(f, args), "stand_in", None))


def as_tuple(what: str, name: str, value: Any) -> tuple[Any, ...]:
    """Arguments, which must be a tuple, also if there is only one."""
    if not isinstance(value, tuple | list):
        raise ArgumentError(f"{what}: {name} is a {type(value).__name__}", remedy=f"pass a tuple: ({name},)")
    return tuple(value)


@public
def hvp(f: Function, wrt: Wrt = None) -> Callable[[Sequence[Values], Values], Values]:
    """`product(args, v)`: the Hessian of the scalar function `f` times `v`, forward over reverse.

    `args` is a tuple; `v` and the result are structured like the result of `grad(f, wrt)`, with the shapes
    and dtypes of the inputs. The Hessian itself is never stored. Raises ShapeError if `f` does not return one
    scalar, or `v` does not fit.
    """
    return partial(_multiplied, grad(f, wrt))


def product(f: Function, wrt: Any = None) -> Tangent:
    """The Hessian of the scalar function `f` times a direction, as a function: it takes the arguments of `f`,
    then a direction for each in `wrt`. Raises DtypeError if there is nothing to differentiate."""
    positions = f._positions(wrt, default_types(f))
    if not positions:
        raise DtypeError(f"{f.__name__} has no float parameter", remedy="annotate one f64")
    return Tangent(grad(f, wrt), positions, with_value=False)


@public
def _multiplied(gradient: Gradient, args: Sequence[Any], v: Any) -> Any:
    """The Hessian of a function, whose gradient this is, times `v`; of a module, so that it pickles."""
    args = as_tuple("hvp", "args", args)
    args = gradient._in_order(args)
    directions = directions_of(gradient, _described(gradient, args).types, v)
    return _pushed(gradient, args, [directions.get(k) for k in range(len(args))], with_value=False)


def directions_of(gradient: Gradient, types: Types, v: Any) -> dict[int, Any]:
    """The direction for a Hessian product, by parameter; it is structured like the gradient."""
    positions = gradient._of._positions(gradient._wrt, types)
    directions = (v,) if gradient._bare(positions) else as_tuple("hvp", "v", v)
    if len(directions) != len(positions):
        raise ShapeError(
            f"{len(directions)} directions for {len(positions)} inputs", remedy="give v the structure of grad"
        )
    return dict(zip(positions, directions, strict=True))


@overload
def jacobian(f: Function, wrt: Wrt = None, sparse: Literal[False] = False) -> Jacobian: ...
@overload
def jacobian(f: Function, wrt: Wrt = None, *, sparse: Literal[True]) -> SparseDerivative: ...
@public
def jacobian(f: Function, wrt: Wrt = None, sparse: bool = False) -> Jacobian | SparseDerivative:
    """The Jacobian of `f`: a function of the same arguments.

    One output: indexed by input as `wrt` says (bare for one); several: [output][input]. A block is
    shaped output.shape + input.shape. If `sparse`, a block is a `scipy.sparse.csr_array` of shape
    (output.size, input.size) with all entries that can be nonzero for any floats; nothing dense is
    allocated, and the function cannot be transformed further. Raises LimitError if the derivative is not
    sparse.
    """
    kind = SparseDerivative if sparse else Jacobian  # anew: the first lengths choose the mode
    return kind(f, wrt, "jacobian")


@overload
def hessian(f: Function, wrt: Wrt = None, sparse: Literal[False] = False) -> Hessian: ...
@overload
def hessian(f: Function, wrt: Wrt = None, *, sparse: Literal[True]) -> SparseHessian: ...
@public
def hessian(f: Function, wrt: Wrt = None, sparse: bool = False) -> Hessian | SparseHessian:
    """The Hessian of the scalar function `f`: a function of the same arguments.

    Indexed [input][input], bare for a single bare `wrt`. A block is shaped input_i.shape + input_j.shape;
    if `sparse`, it is a `scipy.sparse.csr_array`, as for a sparse Jacobian.
    Raises ShapeError if `f` does not return one scalar.
    """
    kind = SparseHessian if sparse else Hessian
    found: Hessian | SparseHessian = by("hessian", f, wrt, kind)
    return found
