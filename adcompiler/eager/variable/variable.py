"""`Variable`: an array that remembers how it was computed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from functools import partial
from threading import RLock
from typing import Any
from weakref import ref

import numpy as np

from adcompiler import provided
from adcompiler.eager.graph.cotangents import apart, seed
from adcompiler.eager.graph.graph import (
    Edge,
    Entry,
    Node,
    Output,
    Pass,
    fresh_name,
    is_variable,
    reachable,
    setting,
    settle,
    state,
    walk,
)
from adcompiler.eager.graph.holders import asked, behind_freed, holders
from adcompiler.eager.graph.hooks import Handle, Hook, Hooks
from adcompiler.eager.graph.provenance import begin, serials, take_array
from adcompiler.eager.graph.user_lines import UserLine, here, warn
from adcompiler.eager.graph.views import read_again, refuse_view, release
from adcompiler.eager.variable import linear, numpy_protocol
from adcompiler.eager.variable.conversions import Conversions, array_of
from adcompiler.errors import DtypeError, Error, GraphError, ShapeError
from adcompiler.fork import Locked
from adcompiler.frames import public, shown


class Variable(Conversions):
    """An array or number whose computation is remembered, so that it can be differentiated.

    value          a number or what NumPy makes an array of; it is copied, so that nobody can change
                   it behind the graph's back. Python ints, also in lists, count as floats, as in compiled
                   functions
    requires_grad  whether backward() leaves a gradient in `.grad`; what is computed from a Variable
                   that requires one requires one too. adc.tape.grad needs no such flag
    name           what it is called in traces and messages; v0, v1, ... where none is given

    A leaf can be given another value (`w.value = ...`), as an optimiser does, and `x += y` and `x[0] = y`
    change a Variable in place; a graph that needs the old value then raises GraphError when it is walked.
    Raises DtypeError for what is no real number, and for integers that require a gradient.
    """

    _assigned = 0  # when `.grad` was last assigned, by serial numbers

    def __init__(self, value: Any, requires_grad: bool = False, name: str | None = None) -> None:
        if is_variable(value):
            raise GraphError(
                f"{value.name} is a Variable already: a new one would lose its graph",
                remedy="use it as it is; clone() keeps the graph, detach() begins another one",
            )
        try:  # as `public` does, but without a call more
            self._begin(array_of(value), name)
            begin(self, "Variable()", given=value)
            self.requires_grad = requires_grad
        except Error as error:
            raise shown(error) from error.__cause__

    def _begin(self, data: np.ndarray, name: str | None) -> None:
        self.data, self.name = data, fresh_name() if name is None else name
        self.serial, self.version = next(serials), 0
        self.entry: Entry | None = None
        self.used = self.needs_grad = self._retains = False
        self._grad: Variable | None = None
        self.hooks: Hooks | None = None  # of a leaf; those of what is computed belong to its entry
        self.place: UserLine | None = None  # where it was last changed

    @classmethod
    def made(cls, data: np.ndarray, name: str | None = None) -> Variable:
        """A Variable around a fresh array, which is not copied."""
        self = cls.__new__(cls)
        self._begin(data, name)
        return self

    # -- the value -----------------------------------------------------------------------------

    @property
    def value(self) -> np.ndarray:
        """The values, read-only: graphs hold them. A leaf can be assigned others of the same shape."""
        view = self.readable()
        take_array(".value", view, self)
        return view

    @value.setter
    @public
    def value(self, value: Any) -> None:
        if not self.is_leaf:
            raise GraphError(
                f"{self.name} was computed: another value would not fit its graph",
                remedy="assign to a leaf, or begin with a new one: detach()",
            )
        data = array_of(value.data if is_variable(value) else value)
        if data.shape != self.shape:
            raise ShapeError(
                f"{self.name} has shape {self.shape}, its new value {data.shape}",
                remedy="an assigned value has the same shape",
            )
        if self._view is None:
            self.hold(data.astype(self.dtype))
        else:
            with setting(recording=False):
                self[...] = data

    def hold(self, data: np.ndarray) -> None:
        """Hold other values of the same shape and dtype, not a copy: graphs that read the old ones refuse."""
        self.change(data)
        read_again(self, False)

    def change(self, data: np.ndarray) -> None:
        """Hold other values; views of this Variable are not read again."""
        settle()
        self.data, self.version, self.place = data, self.version + 1, here()

    @property
    def _version(self) -> int:
        """How often the value was changed; a view and what it shows have one count."""
        return (self if self._view is None else self._view.root).version

    @property
    def shape(self) -> tuple[int, ...]:
        return self.data.shape

    @property
    def dtype(self) -> np.dtype:
        return self.data.dtype

    @property
    def ndim(self) -> int:
        return self.data.ndim

    @property
    def size(self) -> int:
        return self.data.size

    @property
    def differentiable(self) -> bool:
        """Whether the values are floats; others carry no derivative."""
        return self.data.dtype.kind == "f"

    @public
    def __len__(self) -> int:
        if not self.ndim:
            raise DtypeError(f"{self.name} is one number: it has no length", remedy="use it as it is")
        return len(self.data)

    @public
    def __iter__(self) -> Iterator[Variable]:
        return map(self.__getitem__, range(len(self)))  # which raises here for a number, not later

    def __repr__(self) -> str:
        flag = ", requires_grad=True" if self.requires_grad else ""
        shown = np.array2string(self.data, precision=4, separator=", ")
        return f"{type(self).__name__}({shown}, name={self.name!r}{flag})"

    # -- its place in the graph ----------------------------------------------------------------

    @property
    def is_leaf(self) -> bool:
        """Whether gradients end here: not computed, or from nothing that requires a gradient."""
        return not self.requires_grad or self.entry is None or self.entry.state == "reset"

    @property
    def requires_grad(self) -> bool:
        """Whether backward() computes a gradient; only a leaf's can be set."""
        return self.needs_grad

    @requires_grad.setter
    @public
    def requires_grad(self, needed: bool) -> None:
        settle()
        if not isinstance(needed, bool | np.bool_):
            raise DtypeError(f"requires_grad is {needed!r}", remedy="pass True or False")
        if needed and not self.differentiable:
            raise DtypeError(
                f"{self.name} holds {self.dtype}: only floats have derivatives", remedy="pass floats"
            )
        if needed != self.needs_grad and not self.is_leaf:
            raise GraphError(
                f"{self.name} was computed from what requires a gradient",
                remedy="use detach() for a constant",
            )
        if needed and not self.needs_grad and (self.used or self.entry is not None):
            self._restart("requires_grad")  # a graph begins here: what read it before is none
        self.used = self.used and self.needs_grad == needed  # a leaf that was frozen may go on where it was
        self.needs_grad = bool(needed)

    @public
    def requires_grad_(self, requires_grad: bool = True) -> Variable:
        """Set `requires_grad`, and return this Variable."""
        self.requires_grad = requires_grad
        return self

    @public
    def detach_(self) -> Variable:
        """Make this Variable a leaf that requires no gradient; what read it before keeps its graph.

        Raises GraphError for a view, which would no longer change with what it shows.
        """
        settle()
        refuse_view(self)
        self.needs_grad = self._retains = False
        self.hooks = None
        self._restart("detach_()")
        return self

    def _restart(self, how: str) -> None:
        """Become a leaf under another serial number."""
        before = Edge(self.serial, self.entry, self.needs_grad, self.origin)
        self.entry, self.serial = None, next(serials)
        begin(self, how, [before])
        release(self)

    @public
    def register_hook(self, hook: Hook) -> Handle:
        """Call `hook(gradient)` whenever a backward pass has computed this Variable's gradient.

        A Variable that it returns takes the gradient's place, for `.grad` and for what follows; None
        leaves it. Hooks run in their order. Returns a handle, whose `remove()` takes the hook away.
        """
        if not self.requires_grad:
            raise GraphError(f"{self.name} does not require a gradient: no hook would run", remedy=REQUIRE)
        holder: Any = self if self.is_leaf else self._output()
        if holder.hooks is None:
            holder.hooks = Hooks()
        handle: Handle = holder.hooks.add(hook)
        return handle

    def _output(self) -> Output:
        """What the entry that computed this Variable knows of it."""
        assert self.entry is not None
        return next(o for o in self.entry.outputs if o.serial == self.serial)

    @property
    def grad(self) -> Variable | None:
        """What backward() has added up so far; None if nothing. A warning says why where this is no leaf, and
        where the last backward() has not reached it.

        Assign None to begin a new sum.
        """
        if self._grad is None and self.needs_grad and not self._retains:
            warn(".grad", partial(provided.unfilled, self))
        return self._grad

    @grad.setter
    @public
    def grad(self, value: Variable | None) -> None:
        if value is not None and _described(value) != _described(self):
            raise DtypeError(
                f".grad of {self.name} is set to a {_described(value)}",
                remedy=f"assign None, or a Variable of shape {self.shape} and {self.dtype}",
            )
        self._grad, self._assigned = value, next(serials)

    @grad.deleter
    def grad(self) -> None:
        self.grad = None

    @property
    def retains_grad(self) -> bool:
        """Whether a computed Variable keeps its gradient; see `retain_grad`."""
        return self._retains

    @public
    def retain_grad(self) -> None:
        """Make backward() leave a gradient in `.grad` of this computed Variable too."""
        if not self.requires_grad:
            raise GraphError(f"{self.name} does not require a gradient", remedy=REQUIRE)
        self._retains = not self.is_leaf

    @public
    def backward(
        self,
        gradient: Any = None,
        retain_graph: bool | None = None,
        create_graph: bool = False,
        inputs: Variable | Sequence[Variable] | None = None,
    ) -> None:
        """Add the gradient of this Variable to `.grad` of every leaf that requires one.

        gradient      the cotangent to begin with, of this shape; may be left out for a single number
        retain_graph  keep the graph for another backward(); else it is freed (create_graph keeps it)
        create_graph  make the gradients differentiable in turn
        inputs        the Variables, leaves or not, that gradients are left in, in place of the leaves

        Raises ShapeError without a gradient for an array, GraphError if nothing here requires a
        gradient or if the graph was freed already.
        """
        if not self.requires_grad:
            cut = provided.ended(self)
            raise GraphError(
                f"{self.name} depends on nothing that requires a gradient{cut}",
                remedy=f"where no input requires one, {REQUIRE}" if cut else REQUIRE,
            )
        if gradient is None and self.size != 1:
            raise ShapeError(
                f"{self.name} has shape {self.shape}: backward() needs a single number",
                remedy=f"reduce it: {self.name}.sum().backward(); or pass gradient=, a cotangent of its "
                "shape, as the pullback of adc.vjp takes it",
            )
        entries = reachable([self])
        held = holders(self, entries) if inputs is None else asked(inputs)
        dead = behind_freed(entries) if inputs is None else {}
        seeds = {self.serial: seed(self, gradient)}
        found = walk(entries, seeds, dead | held, create_graph).cotangents
        for serial, v in held.items():
            if serial in found:
                v._accumulate(found[serial], create_graph, [self])
        state.last = Pass(next(serials), ref(self)) if inputs is None else None
        if not (create_graph if retain_graph is None else retain_graph):
            for entry in entries:
                entry.free("freed")

    def _accumulate(self, more: Variable, create_graph: bool, outputs: Sequence[Variable] = ()) -> None:
        with _adding.lock, setting(recording=create_graph):
            if self._grad is None:
                self._grad = more.clone() if create_graph else apart(more, False, outputs)
            elif create_graph or self._retains:
                self._grad = self._grad + more
            else:  # the same Variable, as others may hold it too
                self._grad.hold(np.asarray(self._grad.data + more.data))

    def detach(self) -> Variable:
        """The same value as a new leaf: nothing flows back through it."""
        made = Variable.made(self.data)
        begin(made, "detach()", [self])
        return made

    def clone(self) -> Variable:
        """A Variable of its own with the same value; gradients flow back to this one."""
        made: Variable = linear.clone(self)
        return made

    copy = __copy__ = clone

    def __deepcopy__(self, memo: dict[int, Any]) -> Variable:
        kind, given = self.__reduce__()
        made: Variable = kind(*given)
        made._grad = deepcopy(self._grad, memo)
        return made

    @public
    def __reduce__(self) -> tuple[Any, ...]:
        if self.entry is not None:
            raise GraphError(
                f"{self.name} was computed: a deep copy or a pickle would lose its graph",
                remedy="clone() keeps the graph; detach() gives a leaf, which can be copied",
            )
        return Variable, (self.data.copy(), self.requires_grad, self.name)

    # -- calls of compiled functions and NumPy's -----------------------------------------------

    def __adc_call__(self, function: Any, bound: Sequence[Any]) -> Any:
        """A compiled function called with Variables: one entry, however long the function is."""
        return provided.call_with_variables(function, bound)

    @public
    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        return numpy_protocol.ufunc(ufunc, method, inputs, options)

    @public
    def __array_function__(self, function: Callable[..., Any], types: Any, args: Any, options: Any) -> Any:
        return numpy_protocol.function(function, args, options)


_adding = Locked(RLock)  # threads may add to the gradient of one leaf
REQUIRE = "create its inputs with adc.Variable(value, requires_grad=True); adc.tape.grad needs no flag"


def _described(value: Any) -> str:
    return (
        f"Variable of shape {value.shape} and {value.dtype}" if is_variable(value) else type(value).__name__
    )


Node.kind = Variable
