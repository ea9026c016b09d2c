"""`Variable`: an array that remembers how it was computed, with its operators and its ways to plain numbers.

Where numbers and plain arrays were taken out of one is remembered for messages (`provenance.py`).
"""

# What operations are made of stands in folders below, which know no class `Variable`.
# mypy: disable-error-code="no-any-return"

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from functools import partial
from threading import RLock
from typing import Any, NoReturn
from weakref import ref

import numpy as np

from adcompiler import provided
from adcompiler.eager.graph.cotangents import seed, separate
from adcompiler.eager.graph.graph import (
    Edge,
    Entry,
    Node,
    Output,
    Pass,
    fresh_name,
    is_variable,
    reachable,
    refuse_packed,
    setting,
    settle,
    state,
    walk,
)
from adcompiler.eager.graph.holders import asked, behind_freed, holders
from adcompiler.eager.graph.hooks import Handle, Hook, Hooks
from adcompiler.eager.graph.provenance import begin, serials, take, take_array
from adcompiler.eager.graph.user_lines import UserLine, here, warn
from adcompiler.eager.graph.views import basic, read_again, refuse_view, release, view
from adcompiler.eager.variable import linear, mutation, numpy_functions, numpy_protocol
from adcompiler.eager.variable.elementwise import apply
from adcompiler.errors import DtypeError, Error, GraphError, ShapeError
from adcompiler.fork import Locked
from adcompiler.frames import public, shown
from adcompiler.ir.types import NUMPY
from adcompiler.ops.table import ALIASES, TABLE
from adcompiler.public_types import Foreign, Values
from adcompiler.runtime.arguments.adapters import as_numpy
from adcompiler.runtime.arguments.refused import masked, refuse_masked
from adcompiler.runtime.arguments.signature import DTYPE_OF

Axis = int | Sequence[int] | None
# PyTorch's names on a Variable: four that are operators here, and what to write for others.
SAME: Mapping[str, str] = {"mul": "multiply", "sub": "subtract", "div": "divide", "neg": "negative"}

INSTEAD: Mapping[str, str] = {
    "bmm": "x @ y", "cat": "np.concatenate([x, y])", "chunk": "np.split(x, count)", "cpu": "x itself",
    "cuda": 'adc.compile(source, backend="cuda")', "dim": "x.ndim", "double": "x.astype(np.float64)",
    "expand_as": "x.expand(y.shape)", "float": "x.astype(np.float32)",
    "fill": "x.fill_(value)",
    "gather": "np.take_along_axis(x, indices, axis)", "grad_fn": "adc.tape.show(), or adc.tape.trace()",
    "index_select": "np.take(x, indices, axis)", "long": "x.astype(np.int64)",
    "masked_fill": "np.where(mask, value, x)", "masked_fill_": "x[mask] = value", "mm": "x @ y",
    "mv": "x @ y",
    "new_zeros": "np.zeros(shape)", "numel": "x.size", "permute": "x.transpose(axes)",
    "softmax": "(x - x.logsumexp()).exp()", "split_with_sizes": "np.split(x, places)", "t": "x.T",
    "to": "x.astype(dtype)", "type": "x.dtype", "unbind": "iterate over x",
    "unsqueeze": "np.expand_dims(x, axis)", "view": "x.reshape(shape)", "view_as": "x.reshape(y.shape)",
}  # fmt: skip


def missing(kind: str, name: str) -> AttributeError:
    """The error for a name that is not an attribute, with NumPy's or ours where it is PyTorch's."""
    instead = INSTEAD.get(name)
    hint = f": write {instead}" if instead else ""
    return AttributeError(f"{kind!r} object has no attribute {name!r}{hint}")


def _operator(name: str) -> Callable[[Any, Any], Variable]:
    def operator(self: Any, other: Any) -> Any:
        try:  # as `public` does, but without a call more
            return apply(name, self, other)
        except Error as error:
            raise shown(error) from error.__cause__

    return operator


def _unary(name: str) -> Callable[[Any], Variable]:
    return public(lambda self: apply(name, self))


def _reflected(name: str) -> Callable[[Any, Any], Variable]:
    def operator(self: Any, other: Any) -> Any:
        try:
            return apply(name, other, self)
        except Error as error:
            raise shown(error) from error.__cause__

    return operator


def _product(self: Any, other: Any) -> Variable:
    """`self * other`; in a propagate a factor 1 costs nothing, for partial derivatives often are 1."""
    one = state.inside is not None and type(other) in (int, float) and other == 1 and self.differentiable
    try:
        result: Variable = self if one else apply("multiply", self, other)
    except Error as error:
        raise shown(error) from error.__cause__
    return result


def _comparison(name: str) -> Callable[[Any, Any], np.ndarray]:
    return public(lambda self, other: apply(name, self, other))


def _in_place(name: str) -> Callable[..., Variable]:
    return public(lambda self, *operands: mutation.operate(self, name, *operands))


def _method(name: str, self: Any) -> Callable[..., Any]:
    def method(*args: Any) -> Any:
        try:
            return apply(name, self, *args)
        except Error as error:
            raise shown(error) from error.__cause__

    return method


class Variable(Node):
    """An array or number that remembers how it was computed, so that it can be differentiated.

    value          a number or an array-like; it is copied, so later changes of the original do not
                   affect the graph. Python ints, also in lists, count as floats, as in compiled functions
    requires_grad  whether backward() stores a gradient in `.grad`; Variables computed from one that
                   requires a gradient require one too. adc.tape.grad does not need this flag
    name           its name in traces and messages; by default v0, v1, ...

    A leaf can get another value (`w.value = ...`), as in an optimiser step, and `x += y` and `x[0] = y`
    change a Variable in place. A graph that needs the old value then raises GraphError.
    Raises DtypeError for values that are not real numbers, and for integers that require a gradient.
    """

    _assigned = 0  # when `.grad` was last assigned, by serial numbers

    def __init__(self, value: Values, requires_grad: bool = False, name: str | None = None) -> None:
        if is_variable(value):
            raise GraphError(
                f"{value.name} is a Variable already: a new one would lose its graph",
                remedy="use it directly; clone() keeps the graph, detach() starts another one",
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
        """The values, read-only because graphs share them. A leaf accepts other values of the same shape."""
        view = self.readable()
        take_array(".value", view, self)
        return view

    @value.setter
    @public
    def value(self, value: Values) -> None:
        if not self.is_leaf:
            raise GraphError(
                f"{self.name} was computed: another value would contradict its graph",
                remedy="assign to a leaf, or start a new one: detach()",
            )
        data = array_of(value.data if is_variable(value) else value)
        if data.shape != self.shape:
            raise ShapeError(
                f"{self.name} has shape {self.shape}, but its new value has {data.shape}",
                remedy="an assigned value must have the same shape",
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
        """The length of each axis; () for a number."""
        return self.data.shape

    @property
    def dtype(self) -> np.dtype:
        """The type of the values, as in NumPy."""
        return self.data.dtype

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return self.data.ndim

    @property
    def size(self) -> int:
        """The number of values."""
        return self.data.size

    @property
    def differentiable(self) -> bool:
        """Whether the values are floats; others have no derivative."""
        return self.data.dtype.kind == "f"

    @public
    def __len__(self) -> int:
        if not self.ndim:
            raise DtypeError(f"{self.name} is a single number: it has no length", remedy="use it directly")
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
                f"{self.name} was computed from Variables that require a gradient",
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
        """Make this Variable a leaf that requires no gradient; entries that read it before keep their graph.

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
        """Call `hook(gradient)` when a backward pass has computed this Variable's gradient.

        If it returns a Variable, that replaces the gradient, for `.grad` and in the rest of the pass; None
        keeps it. Hooks run in order. Returns a handle, whose `remove()` removes the hook.
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
        """The sum of gradients from backward(), or None. If this is not a leaf, or the last backward() did
        not reach it, a warning says why.

        Assign None to start a new sum.
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
        """Make backward() store a gradient in `.grad` of this computed Variable too."""
        if not self.requires_grad:
            raise GraphError(f"{self.name} does not require a gradient", remedy=REQUIRE)
        self._retains = not self.is_leaf

    @public
    def backward(
        self,
        gradient: Values = None,
        retain_graph: bool | None = None,
        create_graph: bool = False,
        inputs: Variable | Sequence[Variable] | None = None,
    ) -> None:
        """Add the gradient of this Variable to `.grad` of every leaf that requires one.

        gradient      the initial cotangent, of this shape; optional for a single number
        retain_graph  keep the graph for another backward(); otherwise it is freed (create_graph keeps it)
        create_graph  make the gradients differentiable
        inputs        the Variables, leaves or not, that get gradients instead of the leaves

        Raises ShapeError without a gradient for an array, GraphError if nothing here requires a
        gradient or if the graph was already freed.
        """
        if not self.requires_grad:
            cut = provided.ended(self)
            raise GraphError(
                f"{self.name} depends on nothing that requires a gradient{cut}",
                remedy=f"if no input requires one, {REQUIRE}" if cut else REQUIRE,
            )
        if gradient is None and self.size != 1:
            raise ShapeError(
                f"{self.name} has shape {self.shape}: backward() needs a single number",
                remedy=f"reduce it: {self.name}.sum().backward(); or pass gradient=, a cotangent of its "
                "shape, as for adc.vjp",
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
                self._grad = more.clone() if create_graph else separate(more, False, outputs)
            elif create_graph or self._retains:
                self._grad = self._grad + more
            else:  # the same Variable, as others may hold it too
                self._grad.hold(np.asarray(self._grad.data + more.data))

    def detach(self) -> Variable:
        """The same value as a new leaf: no gradient flows back through it."""
        made = Variable.made(self.data)
        begin(made, "detach()", [self])
        return made

    def clone(self) -> Variable:
        """A new Variable with the same value; gradients flow back to this one."""
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

    # -- operators and methods ------------------------------------------------------------------

    __add__, __radd__, __iadd__ = _operator("add"), _reflected("add"), _in_place("add")
    __sub__, __rsub__, __isub__ = _operator("subtract"), _reflected("subtract"), _in_place("subtract")
    __mul__, __rmul__, __imul__ = _product, _reflected("multiply"), _in_place("multiply")
    __truediv__, __rtruediv__, __itruediv__ = _operator("divide"), _reflected("divide"), _in_place("divide")
    __pow__, __rpow__, __ipow__ = _operator("power"), _reflected("power"), _in_place("power")
    __floordiv__, __rfloordiv__ = _operator("floor_divide"), _reflected("floor_divide")
    __mod__, __rmod__ = _operator("remainder"), _reflected("remainder")
    __ifloordiv__, __imod__ = _in_place("floor_divide"), _in_place("remainder")

    __and__, __rand__ = _operator("bitwise_and"), _reflected("bitwise_and")
    __or__, __ror__ = _operator("bitwise_or"), _reflected("bitwise_or")
    __xor__, __rxor__ = _operator("bitwise_xor"), _reflected("bitwise_xor")
    __lshift__, __rlshift__ = _operator("left_shift"), _reflected("left_shift")
    __rshift__, __rrshift__ = _operator("right_shift"), _reflected("right_shift")

    # Comparisons give plain arrays: no derivative flows through them.
    __lt__, __le__ = _comparison("less"), _comparison("less_equal")
    __gt__, __ge__ = _comparison("greater"), _comparison("greater_equal")
    __eq__, __ne__ = _comparison("equal"), _comparison("not_equal")  # type: ignore[assignment]
    __hash__ = object.__hash__

    __neg__, __abs__, __invert__ = _unary("negative"), _unary("abs"), _unary("invert")

    def __pos__(self) -> Variable:
        found: Variable = self
        return found

    @public
    def __matmul__(self, other: Any) -> Any:
        return numpy_functions.matmul(self, other)

    @public
    def __rmatmul__(self, other: Any) -> Any:
        return numpy_functions.matmul(other, self)

    @public
    def __getitem__(self, where: Any) -> Variable:
        if not basic(where):
            return linear.index(self, where)
        return view(self, linear.part(self, where), lambda x: linear.part(x, where), where)

    @public
    def __setitem__(self, where: Any, value: Any) -> None:
        mutation.assign(self, where, value)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        """Every primitive of the rule table is a method: x.exp(), x.exp_() in place."""
        if name in TABLE or name in ALIASES:
            return _method(name, self)
        if name.endswith("_") and (name[:-1] in TABLE or name[:-1] in ALIASES):
            return public(lambda *args: mutation.operate(self, name[:-1], *args))
        if name in numpy_functions.METHODS:
            return partial(numpy_functions.METHODS[name], self)
        same = SAME.get(name.removesuffix("_"))
        if same:
            return getattr(self, same + "_" * name.endswith("_"))
        raise missing(type(self).__name__, name)

    @public
    def copy_(self, value: Values) -> Variable:
        """Take these values, in place."""
        return mutation.assign(self, ..., value)

    fill_ = copy_

    @public
    def zero_(self) -> Variable:
        """Become zero everywhere, in place."""
        return mutation.assign(self, ..., 0)

    @public
    def sum(self, axis: Axis = None, keepdims: bool = False, name: str | None = None) -> Variable:
        """The sum over `axis`, or over all."""
        return linear.total(self, axis, keepdims, name)

    @public
    def mean(self, axis: Axis = None, keepdims: bool = False, name: str | None = None) -> Variable:
        """The mean over `axis`, or over all."""
        return linear.total(self, axis, keepdims, name, mean=True)

    @public
    def expand(self, *shape: int | Sequence[int]) -> Variable:
        """Repeated along axes of length 1, and along new axes in front, to `shape`."""
        lengths = _shape_of(shape)
        return view(self, linear.expand(self, lengths), lambda x: linear.expand(x, lengths))

    @public
    def reshape(self, *shape: int | Sequence[int]) -> Variable:
        """The same elements in another shape; one length may be -1."""
        lengths = _shape_of(shape)
        found = linear.reshape(self, lengths)
        data = vars(found).get("data")  # of what a fused function has deferred there is none yet
        if found.copies if data is None else not np.may_share_memory(data, self.data):
            return found  # of a transposed one it is a copy, as in NumPy
        return view(self, found, lambda x: linear.reshape(x, lengths))

    @public
    def astype(self, dtype: Foreign) -> Variable:
        """The values as float64 or float32; other types end the derivative."""
        return linear.convert(self, dtype)

    @public
    def transpose(self, *axes: Foreign) -> Variable:
        """The axes in another order, or in reverse."""
        order = axes[0] if len(axes) == 1 and not isinstance(axes[0], int) else axes
        return numpy_functions.moved(np.transpose, self, order) if order else self.T

    @property
    def T(self) -> Variable:  # noqa: N802, as NumPy calls it
        """The axes in reverse order."""
        return view(self, linear.transpose(self), linear.transpose)

    @property
    def mT(self) -> Variable:  # noqa: N802, as NumPy calls it
        """The last two axes exchanged."""
        if self.ndim < 2:
            raise ShapeError("mT exchanges the last two axes", remedy="give it two axes, as in x[None, :].mT")
        return self.T if self.ndim == 2 else numpy_functions.moved(np.swapaxes, self, -1, -2)

    # -- numbers and arrays --------------------------------------------------------------------

    def numpy(self) -> np.ndarray:
        """A copy of the values as a plain, writable array."""
        copy = self.data.copy()
        take_array(".numpy()", copy, self)
        return copy

    def tolist(self) -> Values:
        """The values as Python numbers, in lists within lists."""
        return self.numpy().tolist()

    def item(self) -> Values:
        """The one value, as a Python number. Raises ShapeError if there are more."""
        if self.data.size != 1:
            raise self._several()
        take(".item()", number := self.data.item(), self)
        return number

    def __float__(self) -> float:
        if self.data.size != 1:
            raise self._several()
        take("float()", number := float(self.data.item()), self)
        return number

    def __int__(self) -> int:
        if self.data.size != 1:
            raise self._several()
        take("int()", number := int(self.data.item()), self)
        return number

    def __index__(self) -> int:
        if self.data.dtype.kind not in "iu":
            raise DtypeError(
                f"{self.name} holds {self.data.dtype}: only an integer can be an index", remedy="write int(x)"
            )
        if self.data.size != 1:
            raise self._several()
        return int(self.data.item())

    def __bool__(self) -> bool:
        if self.data.size != 1:
            raise self._several()
        return bool(self.data.item())

    def __format__(self, spec: str) -> str:
        """One number as its Python number: f"{loss:.4f}"; arrays as `str` has them, without a format."""
        if spec and self.data.ndim:
            raise self._several()
        return format(self.data.item(), spec) if spec else str(self)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        found = np.array(self.data, dtype) if copy else np.asarray(self.readable(), dtype)
        take_array("np.asarray()", found, self)
        return found

    @property
    def _data(self) -> NoReturn:
        """What masked arrays ask an operand for: their operators would take its values, and no graph."""
        raise masked(f"an operand of {self.name}")

    def readable(self) -> np.ndarray:
        """The values as an array that cannot be written."""
        view = self.data.view()
        view.flags.writeable = False
        return view

    def _several(self) -> ShapeError:
        return ShapeError(
            f"{self.name} of shape {self.data.shape} is not a number", remedy="reduce it: sum() or mean()"
        )


_adding = Locked(RLock)  # threads may add to the gradient of one leaf
REQUIRE = "create its inputs with adc.Variable(value, requires_grad=True); adc.tape.grad needs no flag"


def _described(value: Any) -> str:
    return (
        f"Variable of shape {value.shape} and {value.dtype}" if is_variable(value) else type(value).__name__
    )


def _shape_of(given: Sequence[Any]) -> tuple[int, ...]:
    """A shape from numbers, or from one sequence."""
    one = given[0] if len(given) == 1 and not isinstance(given[0], int) else given
    return tuple(int(n) for n in one)


def array_of(value: Any) -> np.ndarray:
    """A copy of a value, in a type that kernels take."""
    refuse_masked("the value of a Variable", value)
    refuse_packed("the value of a Variable", value)
    given = as_numpy("the value of a Variable", value)
    try:
        array = np.array(float(given) if type(given) is int else given)
        if type(value) is list and array.dtype.kind in "iu":
            array = array.astype(float)
    except (ValueError, TypeError, OverflowError) as error:
        raise DtypeError(f"a Variable cannot hold this: {error}", remedy="pass numbers or arrays") from error
    kind = DTYPE_OF.get(array.dtype.char)
    if kind is None:
        raise DtypeError(
            f"a Variable cannot hold a {type(value).__name__} of dtype {array.dtype}",
            remedy="pass bool, integer, float32 or float64 values",
        )
    return array.astype(NUMPY[kind], copy=False)


Node.kind = Variable
