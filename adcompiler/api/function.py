"""`Function`: a compiled function, specialised for the types of each call."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from keyword import iskeyword
from typing import TYPE_CHECKING, Any

from adcompiler.ad.programs.calculus import CALCULUS
from adcompiler.api.pairs.into import write
from adcompiler.eager.aggregates.kernel_values import leaf_key
from adcompiler.eager.graph.graph import state
from adcompiler.errors import DtypeError, Error
from adcompiler.frames import public
from adcompiler.frontend.lowering.program import Lowered, lower
from adcompiler.frontend.values.values import Closure
from adcompiler.interpreter.to_sympy import to_sympy
from adcompiler.lazy import cached_property
from adcompiler.passes.pipeline import OPTIMISE, SIMPLIFY, run
from adcompiler.passes.recurrences.checkpoint import checkpoint
from adcompiler.public_types import Foreign, Values, Wrt
from adcompiler.pytree.kinds import Types
from adcompiler.pytree.structures import flatten, unflatten
from adcompiler.runtime.arguments.adapters import answered, interop
from adcompiler.runtime.arguments.ragged_arrays import refuse
from adcompiler.runtime.arguments.signature import (
    FLOAT,
    PLAIN,
    Handled,
    find_hook,
    leaves_out,
    parameters_of,
    wrapper_of,
)
from adcompiler.runtime.programs.batches import batches_of
from adcompiler.runtime.programs.call_sites import CallSites, Key
from adcompiler.runtime.programs.options import Options
from adcompiler.runtime.programs.printing import show_prints
from adcompiler.runtime.programs.program import Bound
from adcompiler.runtime.programs.traceable import Traceable
from adcompiler.runtime.reports.explain import explanation
from adcompiler.runtime.reports.foreign import for_c, for_numba
from adcompiler.runtime.reports.show import default_types, show
from adcompiler.runtime.reports.why_compiled import why_none

if TYPE_CHECKING:
    from adcompiler.api.pairs.backward import Backward
    from adcompiler.api.pairs.styles import Forward

MADE = {"jitted", "cfunc", "low_level_callable", "forward", "backward"}


class Function(Traceable):
    """A compiled function: call it with numbers and NumPy arrays, by position or by name.

    Python numbers give Python floats. The first call for each combination of dtypes, ranks and
    axes of length 1 compiles a kernel; other lengths do not. `_result=buffers` writes the results into
    arrays, as `into` does.

    Raises at a call: ParseError and the other errors of the language, ShapeError if lengths do not fit,
    DtypeError for arguments that are not real numbers.
    """

    # Python looks `__call__` up in the class and finds a slot, so what stands in the slot is called, with no
    # function of Python in between: the general way, or the fast_path to calls like the last one.
    __slots__ = ("__call__", "_sites")
    __call__: Callable[..., Any]
    _sites: CallSites[tuple[Types, Callable[[Sequence[Any]], Any]]]  # of calls with Variables or containers

    def _forget(self) -> None:
        super()._forget()
        self._sites = CallSites(leaf_key)
        self.__call__ = self._call

    def _seen(self, types: Types) -> None:
        """Remember the types of the last call, and drop the fast path of others."""
        self._last, self.__call__ = types, self._call

    @property
    def __signature__(self) -> inspect.Signature:
        """Parameters as Python shows them. A keyword of Python, such as `lambda`, cannot be one: it is shown
        as `lambda_`, which can only be passed by position, as can those before it."""
        named = [p for p in self._parameters if p.name.isidentifier()]
        last = max((k for k, p in enumerate(named) if iskeyword(p.name)), default=-1)
        taken = {p.name for p in named}
        found = list[inspect.Parameter]()
        for k, p in enumerate(named):
            kind = inspect.Parameter.POSITIONAL_ONLY if k <= last else inspect.Parameter.POSITIONAL_OR_KEYWORD
            name = p.name
            while iskeyword(name) or (name != p.name and name in taken):
                name += "_"
            found.append(inspect.Parameter(name, kind, default=p.default))
        return inspect.Signature(found)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.__name__}({', '.join(self._names)})>"

    # -- calls ---------------------------------------------------------------------------------

    @public
    def _call(self, *args: Any, **keywords: Any) -> Any:
        """A call with any arguments, after which there is a fast_path to others like it."""
        if len(args) < len(self._parameters) and leaves_out(self._parameters, args, keywords):
            return self.__call__(*self._in_order(args, keywords))
        hooks = bool(keywords) or not PLAIN.issuperset(map(type, args))
        key: Key | None = None
        leaves: Sequence[Any] = args
        if hooks:
            if "_result" in keywords and all(p.name != "_result" for p in self._parameters):
                from adcompiler.api.pairs.into import call_into

                return call_into(self, keywords.pop("_result"), args, keywords)
            if not keywords:
                key, leaves = self._sites.key(args, state.recording)
            if (site := self._sites.find(key)) is not None:
                self._last, answer = site
                return answer(leaves)
        bound = self._bound(args, keywords) if hooks else self._bind(args, keywords)
        if not isinstance(bound, Bound):
            return answered(bound, self, self._in_order(args, keywords))
        if self._prints:
            show_prints(self, bound.types, bound.values)
        results = bound.run()
        if not (keywords or self._prints):
            self.__call__ = bound.fast_path(args, self._call)
            self._sites.keep(key, leaves, bound.values, lambda: (bound.types, bound.site()))
        return unflatten(bound.structure, results)

    def _bound(self, args: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
        """The program on the arguments of a call, or the argument, or leaf of one, that handles the call."""
        try:
            return self._bind(args, keywords, hooks=True)
        except (Error, Handled):
            hook = find_hook(self, args, keywords)
            if hook is None:
                raise
            return hook

    @public
    def into(self, buffers: Values, *args: Values, **keywords: Values) -> Values:
        """Call, and write the results into `buffers`: an array, or a tuple nested like the result.

        Buffers must have the shape and dtype of the result (ShapeError, DtypeError otherwise) and share no
        memory with each other; they may overlap the arguments. With backend="cuda" they may be on a device,
        and float16 or bfloat16 for float32 results. Returns `buffers`.
        """
        wrapper_of(self, args, keywords)  # labels agree
        bound = self._bind(args, keywords, rows=False)
        refuse("into", (bound.program.structure,))
        write(bound, flatten(bound.program.structure, buffers))
        return buffers

    # -- beyond Python calls -------------------------------------------------------------------

    @cached_property
    def jitted(self) -> Foreign:
        """The function for calls from the user's `@njit` code, which compiles it and allocates its results.

        Results are nested tuples as in Python. Arrays may have any lengths that fit, but axes of length 1
        do not broadcast: numba knows only ranks. Containers may be tuples and named tuples. Static
        parameters are not supported (DtypeError).
        """
        from adcompiler.targets.cpu.jitted import jitted

        if any(p.static for p in self._parameters):
            raise DtypeError(f"{self.__name__} has static parameters", remedy="compile it with their values")
        names = self._names
        return jitted(self.__name__, names, self, partial(for_numba, self), self._backend)

    @cached_property
    def cfunc(self) -> Foreign:
        """The function of scalars as a C callback: numba's `CFunc`, with `address`, `ctypes`, `native_name`.

        One result is returned, `double f(double, ...)`; several, as of a gradient, are written in order,
        `void f(double, ..., double *out)`. Parameters annotated i64, f32 or bool are int64_t, float and
        bool. Raises ShapeError for arrays and Error for static parameters.
        """
        from adcompiler.targets.cpu.cfunc import c_callback

        return c_callback(for_c(self), self._names, self._backend)

    @cached_property
    def low_level_callable(self) -> Foreign:
        """The function of n scalars as a `scipy.LowLevelCallable` for `scipy.integrate`: quad and nquad.

        Its signature is `double (int, double *)`: the parameters in order, as `quad(f, a, b, args=...)` and
        `nquad` pass them. Raises like `cfunc`, and DtypeError for results other than one float.
        """
        from scipy import LowLevelCallable

        from adcompiler.targets.cpu.cfunc import c_integrand

        return LowLevelCallable(c_integrand(for_c(self), self._backend).ctypes)

    @public
    def torch(self) -> Foreign:
        """The function for PyTorch: it returns tensors, differentiable to any order (docs/torch.md).

        Raises Error if PyTorch is not installed.
        """
        return interop("torch").of(self)

    @public
    def jax(self) -> Foreign:
        """The function of JAX arrays, under jit, grad, jvp, vmap and hessian, to any order (docs/jax.md).

        Raises Error if JAX is not installed.
        """
        return self._derived("jax", lambda: interop("jax").JaxFunction(self))

    def __getstate__(self) -> dict[str, Any]:
        """Without kernels and other things that are made again when they are needed."""
        return {k: v for k, v in self.__dict__.items() if k not in MADE}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._forget()

    # -- SlangPy's styles ----------------------------------------------------------------------

    @public
    def call(self, *args: Values, **keywords: Values) -> Values:
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

    @public
    def show(self, stage: str = "ir", *args: Values, wrt: Wrt = None) -> str:
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
    def explain(self, wrt: Wrt = None, *args: Values, cost: bool = False) -> str:
        """Report which gradients exist, why others are None, and what forward saves.

        With `cost`, for `args`: what each kernel moves and computes, its time, and the time at the peak rates
        of this machine, which are measured once. Raises Error without arguments.
        """
        if cost:
            from adcompiler.runtime.reports.cost import cost_of

            return str(cost_of(self, wrt, args))
        return str(explanation(self, wrt, self._shown(args)))

    why_none = why_none

    def sympy(self) -> Foreign:
        """The function of scalars as SymPy expressions in its parameters' names, nested like its result.

        Raises DtypeError for arrays, and for functions that SymPy does not have.
        """
        lowered = self._trace(tuple(FLOAT for _ in self._parameters))
        return unflatten(lowered.structure, to_sympy(run(OPTIMISE, lowered.func)))

    @public
    def latex(self, *args: Values, gradient: bool = False) -> str:
        """The function in LaTeX, by SymPy: its result, or a tuple of several.

        Of an array it is the element at indices, i, j, ... from 0; reductions are sums over indices. It is
        written for arguments like `args`, else as last called, else as annotated, for scalars.

        gradient  equations instead, of the value and of the gradient by each float parameter, as the compiler
                  differentiates: in an `aligned` environment, without dollars

        Raises DtypeError for loops, scatters, routines on matrices and what SymPy does not have, LimitError
        for more than 2000 operations, ShapeError for the gradient of an array.
        """
        return str(interop("display").formula(self, args, gradient))

    def _repr_latex_(self) -> str | None:
        """Its value and its gradient as equations, for notebooks; None where there is no such form."""
        found: str | None = interop("display").latex(self)
        return found

    def _repr_html_(self) -> str:
        """Its signature, source and equations, for notebooks."""
        return str(interop("display").html(self))

    def _shown(self, args: Sequence[Any]) -> Types:
        """The types to show: those of `args`, else of the last call, else the annotated ones, or scalars."""
        if args:
            return self._describe(args).types
        return self._last or default_types(self)


class SourceFunction(Function):
    """A function from a text, a file or a decorated Python function."""

    _closure: Closure

    def __init__(self, closure: Closure, static: Sequence[str], options: Options) -> None:
        parameters = parameters_of(closure.definition, static, closure.defaults, closure.counts)
        super().__init__(closure.name, parameters, options.backend)
        self._closure, self._options, self._save = closure, options, options.save
        if options.strict:
            self._batched = batches_of(self._parameters)
        self.__doc__ = closure.definition.docstring

    def _trace(self, types: Types) -> Lowered:
        lowered = lower(self._closure, types, calculus=CALCULUS)
        self._prints |= lowered.prints
        func = lowered.func if self._options.checks else lowered.func.with_(checks=())
        budget = self._options.memory
        passes = SIMPLIFY if budget is None else (*SIMPLIFY, checkpoint(budget))
        return replace(lowered, func=run(passes, func))
