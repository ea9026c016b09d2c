"""`Function`: a compiled function, specialised for the types of each call."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from adcompiler.ad.programs.calculus import CALCULUS
from adcompiler.api.pairs.into import write
from adcompiler.eager.aggregates.call_cache import MISSED, CallCache
from adcompiler.errors import DtypeError
from adcompiler.frames import public
from adcompiler.frontend.lowering.program import Lowered, lower
from adcompiler.frontend.values.values import Closure
from adcompiler.lazy import cached_property
from adcompiler.passes.pipeline import SIMPLIFY, run
from adcompiler.passes.recurrences.checkpoint import checkpoint
from adcompiler.progress import compiling
from adcompiler.pytree.containers import Container
from adcompiler.pytree.kinds import ArgType
from adcompiler.pytree.structures import flatten, is_of_numbers, unflatten
from adcompiler.runtime.arguments.adapters import answered, interop
from adcompiler.runtime.arguments.ragged_arrays import refuse, with_rows
from adcompiler.runtime.arguments.signature import (
    PLAIN,
    Parameter,
    bind,
    describe,
    find_hook,
    leaves_out,
    parameters_of,
    wrapper_of,
)
from adcompiler.runtime.arguments.struct_arrays import is_open
from adcompiler.runtime.programs.batches import batches_of, check_batches
from adcompiler.runtime.programs.integer_lists import convert_lists, with_integer_lists
from adcompiler.runtime.programs.options import Options
from adcompiler.runtime.programs.printing import show_prints
from adcompiler.runtime.programs.specialise import Specialisation, Types, maker
from adcompiler.runtime.programs.splitting import PARTIALS, Save, SplitFunction, checked_save
from adcompiler.runtime.programs.wrt import inputs_of, positions
from adcompiler.runtime.reports.explain import explanation
from adcompiler.runtime.reports.foreign import for_c, for_numba
from adcompiler.runtime.reports.show import default_types, show
from adcompiler.runtime.reports.symbolic_forms import Displayed
from adcompiler.runtime.reports.why_compiled import why_none

if TYPE_CHECKING:
    from adcompiler.api.pairs.backward import Backward
    from adcompiler.api.pairs.styles import Forward

CACHED = ("jitted", "cfunc", "low_level_callable", "forward", "backward")


class Function(Displayed):
    """A compiled function: call it with numbers and NumPy arrays, by position or by name.

    Python numbers give Python floats. The first call for each combination of dtypes, ranks and
    axes of length 1 compiles a kernel; other lengths do not. `_result=buffers` writes the results into
    arrays, as `into` does. Subclasses define the program for a combination of argument types (`trace`).

    Raises at a call: ParseError and the other errors of the language, ShapeError if lengths do not fit,
    DtypeError for arguments that are not real numbers.
    """

    # Python looks `__call__` up in the class and finds a slot, so what stands in the slot is called, with no
    # function of Python in between: the general way, or the fast_path to calls like the last one.
    __slots__ = ("__call__", "__dict__", "__weakref__")
    __call__: Callable[..., Any]
    prints = False  # whether a print statement stands in the program

    def __init__(self, name: str, parameters: tuple[Parameter, ...], backend: str) -> None:
        maker(backend)
        self.__name__ = self.__qualname__ = name
        self.backend = backend
        self.parameters = tuple(replace(p, device=backend.startswith("cuda")) for p in parameters)
        self._each_item = tuple(replace(p, rows=False) for p in self.parameters)  # for calls without rows
        self._specialisations: dict[Types, Specialisation] = {}
        self._list_types: dict[Types, tuple[Types, bool]] = {}  # of lists, and whether they change
        self._last: Types | None = None
        self.batched: tuple[int, ...] = ()  # the parameters whose arrays have one shape
        self._derived: dict[Any, Function] = {}
        self._splits: dict[Any, SplitFunction] = {}
        self.call_cache: CallCache | None = None  # of calls with Variables
        self.__call__ = self._call

    @property
    def closure(self) -> Closure | None:
        """The definition in the language, if the function has one."""
        return None

    @property
    def __signature__(self) -> inspect.Signature:
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        named = [p for p in self.parameters if p.name.isidentifier()]
        return inspect.Signature([inspect.Parameter(p.name, kind, default=p.default) for p in named])

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.__name__}({', '.join(p.name for p in self.parameters)})>"

    # -- programs ------------------------------------------------------------------------------

    def trace(self, types: Types) -> Lowered:
        """The program for arguments of these types."""
        raise NotImplementedError

    def first_call(self, types: Types, values: Sequence[Any]) -> None:
        """Records the first call with arguments of these types."""

    def specialise(self, types: Types, values: Sequence[Any] | None = None) -> Specialisation:
        """The program for these types with its kernel, made once, at the first call with `values`."""
        found = self._specialisations.get(types)
        if found is None:
            if values is not None:
                self.first_call(types, values)
            with compiling(self.__name__):
                found = Specialisation(self.trace(types), self.backend)
            found = self._specialisations.setdefault(types, found)
        self.seen(types)
        return found

    def seen(self, types: Types) -> None:
        """Remember the types of the last call, for which `show` shows the program, and drop the fast path
        of others."""
        self._last = types
        self.__call__ = self._call

    def describe(
        self, args: Sequence[Any], keywords: dict[str, Any], rows: bool = True
    ) -> tuple[Types, list[Any], bool]:
        """The types of a call, its values, and whether all are numbers; without `rows`, item by item."""
        bound = bind(self.__name__, self.parameters, args, keywords)
        types: list[Any] = []
        values: list[Any] = []
        for parameter, arg in zip(self.parameters if rows else self._each_item, bound, strict=True):
            kind, value = describe(parameter, arg)
            types.append(kind)
            if isinstance(kind, ArgType):
                values.append(value)
            elif isinstance(kind, Container):
                values += value
        found = tuple(types)
        if self.batched:
            check_batches(self, found, bound)
        if any(map(is_open, found)):
            found, values = convert_lists(self, found, values)
        return found, values, all(map(is_of_numbers, found))

    def with_integer_lists(self, types: Types) -> Types:
        """The types of arguments if the program decides those of some lists: see `integer_lists.py`."""
        return with_integer_lists(types, self.trace)

    # -- calls ---------------------------------------------------------------------------------

    @public
    def _call(self, *args: Any, **keywords: Any) -> Any:
        """A call with any arguments, after which there is a fast_path to others like it."""
        if len(args) < len(self.parameters) and leaves_out(self.parameters, args, keywords):
            return self.__call__(*bind(self.__name__, self.parameters, args, keywords))
        if keywords or not PLAIN.issuperset(map(type, args)):
            if "_result" in keywords and all(p.name != "_result" for p in self.parameters):
                from adcompiler.api.pairs.into import call_into

                return call_into(self, keywords.pop("_result"), args, keywords)
            if self.call_cache is not None and not keywords:
                results = self.call_cache(args)
                if results is not MISSED:
                    return results
            names = (p.name for p in self.parameters)
            hook = find_hook((*zip(names, args, strict=False), *keywords.items()))
            if hook is not None:
                return answered(hook, self, bind(self.__name__, self.parameters, args, keywords))
        types, values, plain = self.describe(args, keywords)
        found = self.specialise(types, values)
        lengths = found.sizes(values)
        if self.prints:
            show_prints(self, types, values)
        results = found.run(lengths, values, plain)
        if not (keywords or self.prints):
            self.__call__ = found.fast_path(lengths, types, args, plain, self._call)
        return unflatten(with_rows(found.lowered.structure, types, values), results)

    def call_as_is(self, args: Sequence[Any]) -> Any:
        """A call whose arguments can be passed to kernels unchanged, in order, whatever their library."""
        types, values, plain = self.describe(args, {})
        found = self.specialise(types, values)
        structure = with_rows(found.lowered.structure, types, values)
        return unflatten(structure, found.run(found.sizes(values), values, plain))

    @public
    def into(self, buffers: Any, *args: Any, **keywords: Any) -> Any:
        """Call, and write the results into `buffers`: an array, or a tuple nested like the result.

        Buffers must have the shape and dtype of the result (ShapeError, DtypeError otherwise) and share no
        memory with each other; they may overlap the arguments. With backend="cuda" they may be on a device,
        and float16 or bfloat16 for float32 results. Returns `buffers`.
        """
        wrapper_of(self, args, keywords)  # labels agree
        types, values, plain = self.describe(args, keywords, rows=False)
        found = self.specialise(types, values)
        refuse("into", (found.lowered.structure,))
        targets = flatten(found.lowered.structure, buffers)
        write(found, values, plain, targets, self.backend.startswith("cuda"))
        return buffers

    def derived(self, key: Any, make: Callable[[], Function]) -> Function:
        """A function derived from this one, made once, so that its kernels are reused."""
        if key not in self._derived:
            self._derived.setdefault(key, make())
        return self._derived[key]

    # -- what is differentiated ----------------------------------------------------------------

    def positions(self, wrt: Any, types: Types) -> tuple[int, ...]:
        """The positions of the parameters in `wrt`: see `wrt.positions`."""
        return positions(self.__name__, [p.name for p in self.parameters], wrt, types)

    def inputs_of(self, positions: Sequence[int], types: Types) -> tuple[int, ...]:
        """The inputs of the program to differentiate for parameters: one for each float of a container."""
        return inputs_of(positions, types)

    def how(self, types: Types) -> str | None:
        """For a derivative: a description of its mode."""
        return None

    # -- beyond Python calls -------------------------------------------------------------------

    @cached_property
    def jitted(self) -> Any:
        """The function for calls from the user's `@njit` code, which compiles it and allocates its results.

        Results are nested tuples as in Python. Arrays may have any lengths that fit, but axes of length 1
        do not broadcast: numba knows only ranks. Containers may be tuples and named tuples. Static
        parameters are not supported (DtypeError).
        """
        from adcompiler.targets.numba.jitted import jitted

        if any(p.static for p in self.parameters):
            raise DtypeError(f"{self.__name__} has static parameters", remedy="compile it with their values")
        return jitted(self.__name__, [p.name for p in self.parameters], self, partial(for_numba, self))

    @cached_property
    def cfunc(self) -> Any:
        """The function of scalars as a C callback: numba's `CFunc`, with `address`, `ctypes`, `native_name`.

        One result is returned, `double f(double, ...)`; several, as of a gradient, are written in order,
        `void f(double, ..., double *out)`. Parameters annotated i64, f32 or bool are int64_t, float and
        bool. Raises ShapeError for arrays and Error for static parameters.
        """
        from adcompiler.targets.numba.cfunc import c_callback

        return c_callback(for_c(self), [p.name for p in self.parameters])

    @cached_property
    def low_level_callable(self) -> Any:
        """The function of n scalars as a `scipy.LowLevelCallable` for `scipy.integrate`: quad and nquad.

        Its signature is `double (int, double *)`: the parameters in order, as `quad(f, a, b, args=...)` and
        `nquad` pass them. Raises like `cfunc`, and DtypeError for results other than one float.
        """
        from scipy import LowLevelCallable

        from adcompiler.targets.numba.cfunc import c_integrand

        return LowLevelCallable(c_integrand(for_c(self)).ctypes)

    @public
    def torch(self) -> Any:
        """The function for PyTorch: it returns tensors, differentiable to any order (docs/torch.md).

        Raises Error if PyTorch is not installed.
        """
        return interop("torch").of(self)

    @public
    def jax(self) -> Any:
        """The function of JAX arrays, under jit, grad, jvp, vmap and hessian, to any order (docs/jax.md).

        Raises Error if JAX is not installed.
        """
        return self.derived("jax", lambda: interop("jax").JaxFunction(self))

    def __getstate__(self) -> dict[str, Any]:
        """Without kernels and other things that are made again when they are needed."""
        made = ("_specialisations", "_splits", "_derived", "_list_types", "call_cache", *CACHED)
        return {k: v for k, v in self.__dict__.items() if k not in made}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._specialisations, self._splits, self._derived, self._list_types = {}, {}, {}, {}
        self.call_cache = None
        self.__call__ = self._call

    # -- SlangPy's styles ----------------------------------------------------------------------

    @public
    def call(self, *args: Any, **keywords: Any) -> Any:
        """The value: `f(...)`, of the values of DiffPairs in the arguments."""
        if not keywords and PLAIN.issuperset(map(type, args)):
            return self(*args)
        from adcompiler.api.pairs.pairs import DiffPair, bare, primal

        def value(marked: Any) -> Any:
            return primal(marked) if isinstance(marked, DiffPair) else marked

        named = {k: a if k == "_result" else bare(a, value) for k, a in keywords.items()}
        return self(*(bare(a, value) for a in args), **named)

    @cached_property
    def forward(self) -> Forward:
        """Forward mode: a DiffPair for each result, along the tangents of DiffPairs among the arguments."""
        from adcompiler.api.pairs.styles import Forward

        return Forward(self)

    @cached_property
    def backward(self) -> Backward:
        """Reverse mode: `backward(*args, dresult)` stores gradients in DiffPairs, and returns them."""
        from adcompiler.api.pairs.backward import Backward

        return Backward(self)

    # -- looking inside ------------------------------------------------------------------------

    @property
    def save(self) -> Save:
        """What forward saves for propagate, unless `split` specifies otherwise."""
        return PARTIALS

    @public
    def split(self, wrt: Any = None, save: str | Sequence[str] | None = None) -> SplitFunction:
        """The explicit programs: forward with its saved temporaries, and propagate for each pattern.

        save  "partials": values that occur in partial derivatives; "auto": values that cost less to save than
              to recompute, at the lengths of the first call; or names of temporaries, of the source or as
              shown: propagate recomputes all others. None: as the function was compiled
        """
        key = tuple(wrt) if isinstance(wrt, list) else wrt
        kept = self.save if save is None else checked_save(save)
        return self._splits.setdefault((key, kept), SplitFunction(self, key, kept))

    @public
    def show(self, stage: str = "ir", *args: Any, wrt: Any = None) -> str:
        """The text of a stage: "source", "ast", "ir", "forward", "propagate", "kernel" (its loops),
        "loopir" (loops after transforms), "llvm" (code for this machine, after LLVM's passes) or "ptx"; or
        "html", a page with all of them side by side.

        It is that for arguments like `args`, else of the last call, else of annotations, else scalars. With
        `args`, the page has rooflines, for which kernels are timed.
        """
        if stage == "html":
            from adcompiler.explain.page.html import page

            return page(self, args, wrt)
        return show(self, stage, self._shown(args), wrt)

    @public
    def explain(self, wrt: Any = None, *args: Any, cost: bool = False) -> str:
        """Report which gradients exist, why others are None, and what forward saves.

        With `cost`, for `args`: what each kernel moves and computes, its time, and the time at the peak rates
        of this machine, which are measured once. Raises Error without arguments.
        """
        if cost:
            from adcompiler.runtime.reports.cost import cost_of

            return str(cost_of(self, wrt, args))
        return str(explanation(self, wrt, self._shown(args)))

    why_none = why_none

    def _shown(self, args: Sequence[Any]) -> Types:
        """The types to show: those of `args`, else of the last call, else the annotated ones, or scalars."""
        if args:
            return self.describe(args, {})[0]
        return self._last or default_types(self)


class SourceFunction(Function):
    """A function from a text, a file or a decorated Python function."""

    def __init__(self, closure: Closure, static: Sequence[str], options: Options) -> None:
        parameters = parameters_of(closure.definition, static, closure.defaults)
        super().__init__(closure.name, parameters, options.backend)
        self._closure, self.options = closure, options
        if options.strict:
            self.batched = batches_of(self.parameters)
        self.__doc__ = closure.definition.docstring

    @property
    def closure(self) -> Closure:
        return self._closure

    @property
    def save(self) -> Save:
        return self.options.save

    def trace(self, types: Types) -> Lowered:
        lowered = lower(self.closure, types, calculus=CALCULUS)
        self.prints |= lowered.prints
        func = lowered.func if self.options.checks else lowered.func.with_(checks=())
        budget = self.options.memory
        passes = SIMPLIFY if budget is None else (*SIMPLIFY, checkpoint(budget))
        return replace(lowered, func=run(passes, func))
