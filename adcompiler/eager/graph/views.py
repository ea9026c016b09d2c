"""Views: Variables that show a part of another, the root, or its elements in another shape.

As in PyTorch, an in-place change of either changes both: the root is changed, and its views are read from it
again. No array is shared for writing, so graphs keep the values they have read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import ref

import numpy as np

from adcompiler.eager.graph.graph import Node, Variable, setting
from adcompiler.eager.graph.user_lines import here
from adcompiler.eager.limits import FEWEST_REFERENCES
from adcompiler.errors import GraphError

See = Callable[[Variable], Variable]


class View:
    """How a Variable is read from its root. The root knows its views by weak references, `_views`."""

    __slots__ = ("root", "see", "where")

    def __init__(self, root: Variable, see: See, where: Any) -> None:
        self.root, self.see, self.where = root, see, where

    def places(self) -> Any:
        """An index into the root of the elements that are shown. Raises GraphError if one is shown twice."""
        if self.where is not None:
            return self.where
        shape = self.root.shape
        numbers = Node.kind.made(np.arange(self.root.size).reshape(shape))
        with setting(recording=False, tracing=False):
            found = self.see(numbers).data
        if np.unique(found).size < found.size:
            raise GraphError(
                "elements of an expanded Variable share memory: it cannot be changed in place",
                remedy="clone() it first, or change the Variable before expanding it",
            )
        return np.unravel_index(found, shape) if shape else ...


def view(x: Variable, made: Variable, see: See, where: Any = None) -> Variable:
    """`made`, which is `see(x)`, as a view of `x`; `where`, if it is `x[where]`."""
    if made is x:
        return made
    outer = x._view
    if outer is None:
        root = x
    else:
        root, first, second, where = outer.root, outer.see, see, None
        see = lambda root: second(first(root))  # noqa: E731
    made.__dict__["_view"] = View(root, see, where)
    shown = root._views
    if shown is None:
        root.__dict__["_views"] = [ref(made)]
    else:
        shown.append(ref(made))
        if len(shown) >= FEWEST_REFERENCES and not len(shown) & (len(shown) - 1):
            shown[:] = [v for v in shown if v() is not None]
    return made


def basic(where: Any) -> bool:
    """Whether an index has no arrays, so that it gives a view."""
    if type(where) is not tuple:
        return where is None or where is Ellipsis or type(where) is int or type(where) is slice
    return all(map(basic, where))


def refuse_view(x: Variable) -> None:
    """Raise GraphError for a view: detached in place it would no longer change with what it shows."""
    if x._view is not None:
        raise GraphError(
            f"{x.name} is a view of {x._view.root.name}: detach_() would separate them",
            remedy="use the result of detach(), which is a new Variable",
        )


def release(x: Variable) -> None:
    """Turn a view into a separate leaf."""
    x.__dict__.pop("_view", None)


def read_again(root: Variable, recorded: bool) -> None:
    """Let the views of a root that was changed show what it is now; in its graph, if the change is."""
    if root._views is None:
        return
    alive = [v for w in root._views if (v := w()) is not None and v._view is not None]
    root._views[:] = map(ref, alive)
    with setting(recording=recorded, tracing=False, inside=None):
        for v in alive:
            found = v._view.see(root)
            v.data, v.version, v.place = found.data, v.version + 1, here()
            if recorded:
                stand_for(v, found)


def stand_for(x: Variable, result: Variable) -> None:
    """Let `x`, which holds the values of a result, have its place in the graph."""
    x.serial, x.entry, x.needs_grad = result.serial, result.entry, result.needs_grad
    if x.entry is not None:
        output = next(o for o in x.entry.outputs if o.serial == x.serial)
        output.ref, output.version, output.name = ref(x), x.version, x.name
