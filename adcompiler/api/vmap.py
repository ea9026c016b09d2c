"""`vmap`: a function of one case becomes a function of many, in one program."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from adcompiler.api.function import Function
from adcompiler.api.transforms import Derived, compiled
from adcompiler.errors import ShapeError
from adcompiler.frames import public
from adcompiler.frontend.lowering.program import Lowered
from adcompiler.frontend.values.sizes import Constraint, renumbered
from adcompiler.ir.batch import over
from adcompiler.ir.nodes import Element, Func, Input, Size, const, is_const
from adcompiler.passes.pipeline import SIMPLIFY, run
from adcompiler.public_types import Foreign
from adcompiler.pytree.containers import Container, Ragged, Rows
from adcompiler.pytree.kinds import ArgType, Types
from adcompiler.pytree.structures import arrays_in, batched, parts_like
from adcompiler.runtime.arguments.ragged_arrays import refuse
from adcompiler.runtime.arguments.signature import REQUIRED, ArgumentError, Parameter
from adcompiler.runtime.programs.integer_lists import with_integer_lists

SAME = "mapped axes must have equal lengths"


class Mapped(Derived):
    """`of` over the axis `axes[k]` of each parameter k (None: the same for every case); results have the
    cases as their first axis."""

    def __init__(self, of: Function, axes: tuple[Any, ...], name: str) -> None:
        super().__init__(of, None, name)
        self.axes, self._batched = axes, ()  # `in_axes` says what is a batch
        self._parameters = tuple(map(_of_cases, self._parameters, axes))

    @property
    def _prints(self) -> bool:  # type: ignore[override]
        """What a single case prints has other shapes than the arguments here."""
        return False

    def _with_integer_lists(self, types: Types) -> Types:
        return with_integer_lists(types, self._trace)

    def _trace(self, types: Types) -> Lowered:
        axes: list[int | None] = []
        chosen = map(_axis_of, self._parameters, types, self.axes)
        triples = zip(self._parameters, types, chosen, strict=True)
        single = tuple(_single(p.name, t, axis, axes) for p, t, axis in triples)
        lowered = self._of._trace(single)
        func = lowered.func
        count = _count(func, arrays_in(types), axes)
        made = over(func, axes, count, self.__name__)
        constraints = _renumbered(lowered.constraints, func.inputs, axes, is_const(count))
        return Lowered(run(SIMPLIFY, made), constraints, batched(lowered.structure))


def _of_cases(parameter: Parameter, axis: Any) -> Parameter:
    """A parameter of many cases: a default that has parts would be taken for one part a case."""
    parts = isinstance(parameter.default, tuple | list) and axis is not None
    return replace(parameter, default=REQUIRED) if parts else parameter


def _axis_of(parameter: Parameter, kind: Any, axis: Any) -> Any:
    """The mapped axis of an argument: none of one number where there is a default, which is such a number."""
    number = isinstance(kind, ArgType) and not kind.ones
    return None if number and parameter.default is not REQUIRED else axis


def _single(name: str, kind: Any, axis: Any, axes: list[int | None], before: int = 0) -> Any:
    """The type of one case of an argument; adds the mapped axis of each of its arrays to `axes`.

    `axis` nests like the argument, or is one for all of a container. `before` axes of an array are those of
    the lists around.
    """
    if isinstance(kind, Ragged) and axis is not None:
        refuse("vmap", (kind,))
    if isinstance(kind, Rows):
        return kind.map(lambda part: _single(f"{name}[:]", part, _of_items(name, axis), axes, before + 1))
    if isinstance(kind, Container):
        given = [axis] * len(kind.parts)
        if axis is not None and not isinstance(axis, int):
            given = list(parts_like(kind, axis, f"vmap: in_axes of {name}"))
        cases = zip(kind.keys, kind.parts, given, strict=True)
        return replace(
            kind, parts=tuple(_single(name + kind.path(key), part, a, axes, before) for key, part, a in cases)
        )
    if not isinstance(kind, ArgType):
        return kind
    axes.append(None if axis is None else before + _counted(name, len(kind.ones) - before, axis))
    axis = axes[-1]
    return kind if axis is None else replace(kind, ones=kind.ones[:axis] + kind.ones[axis + 1 :])


def _of_items(name: str, axis: Any) -> Any:
    """The mapped axes of each item of a list."""
    if not isinstance(axis, tuple | list):
        return axis
    if not axis or any(a != axis[0] for a in axis):
        raise ShapeError(
            f"vmap: in_axes of {name} differ from item to item", remedy="use the same for all items"
        )
    return axis[0]


def _counted(name: str, rank: int, axis: Any) -> int:
    """A mapped axis, counted from 0."""
    if not isinstance(axis, int) or not -rank <= axis < rank:
        raise ShapeError(
            f"vmap: {name} has rank {rank}, so no axis {axis}",
            remedy="use None to leave it unmapped",
        )
    return axis % rank


def _count(func: Func, kinds: Sequence[ArgType], axes: Sequence[int | None]) -> Element:
    """The number of cases: 1, or a new size."""
    ones = {k.ones[a] for k, a in zip(kinds, axes, strict=True) if a is not None}
    if len(ones) != 1:
        raise ShapeError(
            "vmap: the mapped axes differ in length" if ones else "vmap does not map any axis", remedy=SAME
        )
    return const(1, "i64") if ones.pop() else Size(len(func.size_names))


def _renumbered(
    constraints: Sequence[Constraint], inputs: Sequence[Input], axes: Sequence[int | None], single: bool
) -> tuple[Constraint, ...]:
    """Constraints in terms of the mapped inputs' axes, and the equality of the mapped ones."""
    numbers: list[int] = []
    mapped: list[int] = []
    total = 0
    for one, axis in zip(inputs, axes, strict=True):
        for k in range(one.rank + (axis is not None)):
            if k == axis:
                mapped += [] if single else [total]
                total += not single
            elif not is_const(one.shape[k - (axis is not None and k > axis)], 1):
                numbers.append(total)
                total += 1

    def number(old: int) -> int:  # behind those of axes stand the values of integers
        return numbers[old] if old < len(numbers) else total + old - len(numbers)

    same = [
        Constraint(Size(mapped[0]), Size(other), "vmap: the mapped axes", None, SAME) for other in mapped[1:]
    ]
    return (*same, *renumbered(constraints, number))


@public
def vmap(f: Function, in_axes: int | Sequence[Foreign] | None = 0) -> Mapped:
    """`f` applied to many cases at once: a function of the same parameters.

    `in_axes` is the axis of each argument along which the cases lie: one for all, or one for each
    parameter, None where the argument is the same for every case. (A default that is a number is the same for
    every case.) For a container it is one for all of it, or nests like it. Every result has the cases as its
    first axis. Raises ShapeError if no axis is mapped or their lengths differ.
    """
    f = compiled("vmap", f)
    count = len(f._parameters)
    axes = tuple(in_axes) if isinstance(in_axes, tuple | list) else (in_axes,) * count
    axes += tuple(None for p in f._parameters[len(axes) :] if p.default is not REQUIRED)
    if len(axes) != count or any(isinstance(a, str | float) for a in axes):
        raise ArgumentError(
            f"vmap: in_axes {axes} for {count} parameters", remedy="pass an integer or None for each"
        )
    return f._derived(("vmap", repr(axes)), lambda: Mapped(f, axes, "vmap"))
