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
from adcompiler.runtime.arguments.signature import ArgumentError, Parameter, adapter_in, bind
from adcompiler.runtime.arguments.tangents import like
from adcompiler.runtime.programs.call_lengths import nominal
from adcompiler.runtime.programs.program import Program
from adcompiler.runtime.reports.show import default_types

NOTHING = "nothing to differentiate"
ONE_EACH = "pass a tangent for each argument; None means zero"


class Tangent(Derived):
    """The tangent, preceded by the value if wanted; takes the arguments, then a tangent for each in `wrt`."""

    def __init__(self, of: Function, wrt: tuple[int, ...], with_value: bool = True) -> None:
        names = [of._parameters[k].name for k in wrt]
        fresh = distinct([f"d{n}" for n in names], [p.name for p in of._parameters])
        super().__init__(of, wrt, "jvp", tuple(Parameter(n, False, False) for n in fresh))
        self._with_value = with_value

    def _trace(self, types: Types) -> Lowered:
        count = len(self._of._parameters)
        lowered = self._of._trace(types[:count])
        given = [
            t for kind, d in zip(self._wrt, types[count:], strict=True) for t in given_floats(types[kind], d)
        ]
        floats = self._of._inputs_of(self._wrt, types[:count])
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
        inputs = [func.inputs[k] for k in self._of._inputs_of(self._of._positions(self._wrt, types), types)]
        if not (inputs and func.results):
            return NOTHING
        if forward_is_cheaper(func.results, inputs, nominal(self.lengths.get(types))):
            return f"forward mode: one direction per entry of {_entries(func, inputs)}, at once"
        return f"reverse mode: one cotangent per entry of {_entries(func, func.results)}, at once"

    def _trace(self, types: Types) -> Lowered:
        lowered = self._of._trace(types)
        func = lowered.func
        positions = self._of._positions(self._wrt, types)
        refuse("jacobian", [types[k] for k in positions])
        length = nominal(self.lengths.get(types))
        blocks = dense_jacobian(func, self._of._inputs_of(positions, types), length)
        structure = grafted(lowered.structure, self._places(positions, types), [r.rank for r in func.results])
        return _dense(self, lowered, func, blocks, structure)


class Hessian(Derived):
    """The second derivative of a scalar function: forward mode over its reverse-mode gradient."""

    def _how(self, types: Types) -> str:
        func = self._of._trace(types).func
        inputs = [func.inputs[k] for k in self._of._inputs_of(self._of._positions(self._wrt, types), types)]
        if not inputs:
            return NOTHING
        return f"forward over reverse mode: one direction per entry of {_entries(func, inputs)}, at once"

    def _trace(self, types: Types) -> Lowered:
        gradient = Gradient(self._of, self._wrt, "grad")
        lowered = gradient._trace(types)
        func = lowered.func
        positions = self._of._positions(self._wrt, types)
        refuse("hessian", [types[k] for k in positions])
        inputs = [func.inputs[k] for k in self._of._inputs_of(positions, types)]
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
    taken = {p.name for p in f._parameters} | {*func.input_names}
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
    args, tangents = as_tuple("jvp", "args", args), as_tuple("jvp", "tangents", tangents)
    if len(args) != len(tangents):
        raise ShapeError(f"{len(args)} arguments but {len(tangents)} tangents", remedy=ONE_EACH)
    f = compiled("jvp", f)
    left = len(f._parameters) - len(args)
    args, tangents = bind(f.__name__, f._parameters, args, {}), (*tangents, *[None] * left)
    types, values = _described(f, args)
    wrt = f._positions(tuple(k for k, t in enumerate(tangents) if t is not None), types)
    check_tangents(f._parameters, types, values, tangents)
    floats = {k: [values[n] for n in f._inputs_of((k,), types)] for k in wrt}
    given = {k: like(tangents[k], floats[k], types[k], f._parameters[k].name) for k in wrt}
    wrt = tuple(k for k in wrt if given[k] is not None)
    pushed = f._derived(("jvp", wrt, with_value), lambda: Tangent(f, wrt, with_value))
    return pushed(*args, *(given[k] for k in wrt))


def _described(f: Function, args: Sequence[Any]) -> tuple[Types, Sequence[Any]]:
    """The types of arguments, and their values; of arrays that only their library reads, the shapes."""
    if (own := getattr(adapter_in(f, args), "types_of", None)) is not None:
        return own(f, bind(f.__name__, f._parameters, args, {}))  # type: ignore[no-any-return]
    types, values, _ = f._describe(args, {})
    return types, values


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
    args = bind(gradient._of.__name__, gradient._of._parameters, args, {})
    types, _ = _described(gradient._of, args)
    directions = directions_of(gradient, types, v)
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
