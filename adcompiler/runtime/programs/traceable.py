"""`Traceable`: what has a program for each combination of types of its arguments."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import Any, TypeVar

from adcompiler.frames import public
from adcompiler.frontend.lowering.program import Lowered
from adcompiler.frontend.values.values import Closure
from adcompiler.lazy import Memo
from adcompiler.progress import compiling
from adcompiler.pytree.containers import Container
from adcompiler.pytree.kinds import ArgType, Types
from adcompiler.pytree.structures import is_of_numbers
from adcompiler.runtime.arguments.signature import Described, Parameter, bind, describe, with_leaves
from adcompiler.runtime.arguments.struct_arrays import is_open
from adcompiler.runtime.programs.backends import maker
from adcompiler.runtime.programs.batches import check_batches
from adcompiler.runtime.programs.integer_lists import convert_lists, with_integer_lists
from adcompiler.runtime.programs.program import Bound, Program
from adcompiler.runtime.programs.splitting import PARTIALS, Save, SplitFunction, checked_save
from adcompiler.runtime.programs.wrt import canonical, inputs_of, positions

T = TypeVar("T")
F = TypeVar("F", bound="Traceable")


class Traceable:
    """Parameters, and a program for each combination of dtypes, ranks and axes of length 1 of the arguments.

    A subclass defines the program (`trace`). What is made from it is made once: programs by types, split
    programs by `wrt`, and derived functions by key.
    """

    __slots__ = ("__dict__", "__weakref__")
    _prints = False  # whether a print statement stands in the program
    _closure: Closure | None = None  # the definition in the language, if there is one
    _save: Save = PARTIALS  # what forward saves for propagate, unless `split` specifies otherwise

    def __init__(self, name: str, parameters: tuple[Parameter, ...], backend: str) -> None:
        maker(backend)
        self.__name__ = self.__qualname__ = name
        self._backend = backend
        self._parameters = tuple(replace(p, device=backend.startswith("cuda")) for p in parameters)
        self._batched: tuple[int, ...] = ()  # the parameters whose arrays have one shape
        self._last: Types | None = None
        self._forget()

    def _forget(self) -> None:
        """Begin without programs, which are made when they are needed."""
        self._each_item = tuple(replace(p, rows=False) for p in self._parameters)  # for calls without rows
        self._hooked = tuple(replace(p, hooked=True) for p in self._parameters)
        self._programs: Memo[Types, Program] = Memo()
        self._list_types: Memo[Types, Types] = Memo()  # where lists of integers are decided
        self._memo: Memo[Any, Any] = Memo()
        self._splits: Memo[Any, SplitFunction] = Memo()

    def _trace(self, types: Types) -> Lowered:
        """The program for arguments of these types."""
        raise NotImplementedError

    def _first_call(self, types: Types, values: Sequence[Any]) -> None:
        """Records the first call with arguments of these types."""

    def _program(self, types: Types, values: Sequence[Any] | None = None) -> Program:
        """The program for these types with its kernel, made once, at the first call with `values`."""

        def make() -> Program:
            if values is not None:
                self._first_call(types, values)
            with compiling(self.__name__):
                return Program.of(self._trace(types), self._backend)

        return self._programs.made(types, make)

    def _specialise(self, types: Types, values: Sequence[Any] | None = None) -> Program:
        """The program for these types, as those of the last call."""
        found = self._programs.get(types) or self._program(types, values)
        self._seen(types)
        return found

    def _seen(self, types: Types) -> None:
        """Remember the types of the last call, for which `show` shows the program."""
        self._last = types

    def _describe(
        self,
        args: Sequence[Any],
        keywords: Mapping[str, Any] = {},
        rows: bool = True,
        hooks: bool = False,
        stand_in: Callable[[str, Any], Any] | None = None,
    ) -> Described:
        """The arguments of a call as programs see them; without `rows`, item by item. With `hooks`, arguments
        that handle calls raise `Handled`. `stand_in` gives what is described in the place of a leaf, of its
        path and of it: an array of another library has one of its type and shape."""
        given = self._in_order(args, keywords)
        bound = given if stand_in is None else with_leaves(self._parameters, given, stand_in)
        types: list[Any] = []
        values: list[Any] = []
        plain, undecided = True, False
        parameters = self._hooked if hooks else self._parameters if rows else self._each_item
        for parameter, arg in zip(parameters, bound, strict=True):
            kind, value = describe(parameter, arg)
            types.append(kind)
            if isinstance(kind, ArgType):
                values.append(value)
                plain, undecided = plain and kind.weak, undecided or kind.open
            elif isinstance(kind, Container):
                values += value
                plain, undecided = plain and is_of_numbers(kind), undecided or is_open(kind)
        found = tuple(types)
        if self._batched:
            check_batches(self, found, bound)
        if undecided:
            found, values = convert_lists(self, found, values)
            plain = all(map(is_of_numbers, found))
        return Described(found, values, plain, given)

    def _bind(
        self, args: Sequence[Any], keywords: Mapping[str, Any] = {}, rows: bool = True, hooks: bool = False
    ) -> Bound:
        """The program for the types of a call, on its arguments, described as `describe` says.

        Raises ShapeError for lengths that do not fit.
        """
        types, values, plain, _ = self._describe(args, keywords, rows, hooks)
        return self._specialise(types, values).bind(values, plain, types)

    def _with_integer_lists(self, types: Types) -> Types:
        """The types of arguments if the program decides those of some lists: see `integer_lists.py`."""
        return with_integer_lists(types, self._trace)

    def _derived(self, key: Any, make: Callable[[], T]) -> T:
        """What is derived from this function, made once, so that its kernels are reused."""
        found: T = self._memo.made(key, make)
        return found

    def _by_floats(self: F, wrt: Any) -> F:
        """This function, or one for which Python ints are floats where `wrt` names the parameter: those of
        numba's functions are integers otherwise."""
        chosen = wrt if isinstance(wrt, tuple) else (wrt,)
        ks = tuple(k for k, p in enumerate(self._parameters) if p.numba and k in chosen)
        return self._derived(("floats", ks), lambda: self._with_floats(ks)) if ks else self

    def _with_floats(self: F, positions: Sequence[int]) -> F:
        made: F = copy(self)
        pairs = enumerate(self._parameters)
        made._parameters = tuple(p.as_float if k in positions else p for k, p in pairs)
        made._forget()
        return made

    @property
    def _names(self) -> list[str]:
        """The names of the parameters."""
        return [p.name for p in self._parameters]

    def _in_order(self, args: Sequence[Any], keywords: Mapping[str, Any] = {}) -> tuple[Any, ...]:
        """One argument for each parameter: see `bind`."""
        return bind(self.__name__, self._parameters, args, keywords)

    def _canonical(self, wrt: Any) -> Any:
        """`wrt` with positions in the place of names."""
        return canonical(self._names, wrt)

    def _positions(self, wrt: Any, types: Types) -> tuple[int, ...]:
        """The positions of the parameters in `wrt`: see `wrt.positions`."""
        return positions(self.__name__, self._names, wrt, types)

    def _inputs_of(self, positions: Sequence[int], types: Types) -> tuple[int, ...]:
        """The inputs of the program to differentiate for parameters: one for each float of a container."""
        return inputs_of(positions, types)

    def _wanted(self, wrt: Any, types: Types) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The parameters in `wrt` by position, and the inputs of the program to differentiate for them."""
        found = self._positions(wrt, types)
        return found, inputs_of(found, types)

    def _how(self, types: Types) -> str | None:
        """For a derivative: a description of its mode."""
        return None

    @public
    def split(self, wrt: Any = None, save: str | Sequence[str] | None = None) -> SplitFunction:
        """The explicit programs: forward with its saved temporaries, and propagate for each pattern.

        save  "partials": values that occur in partial derivatives; "auto": values that cost less to save than
              to recompute, at the lengths of the first call; or names of temporaries, of the source or as
              shown: propagate recomputes all others. None: as the function was compiled
        """
        chosen = self._canonical(wrt)
        kept = self._save if save is None else checked_save(save)
        of = self._by_floats(chosen)
        return self._splits.made((chosen, kept), lambda: SplitFunction(of, chosen, kept))
