"""Walks over programs. All are iterative: a program may be deeper than Python's stack."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain, islice
from operator import attrgetter
from typing import Any, TypeVar

from adcompiler.ir.limits import MOST_KEPT_BELOW
from adcompiler.ir.loop import Item, Loop, Slot
from adcompiler.ir.nodes import (
    Accumulate,
    Apply,
    Array,
    Call,
    Contraction,
    Element,
    Func,
    Index,
    Input,
    Map,
    Node,
    Put,
    Read,
    Reduce,
    Select,
    Shape,
    Size,
)
from adcompiler.ir.origins import follow, tracked
from adcompiler.ir.ruled import Ruled, slots_of

N = TypeVar("N")
_DONE: Any = object()  # on a stack: all below the next node are in order
_ARGS: Callable[[Element], tuple[Element, ...]] = attrgetter("args")


def postorder(roots: Iterable[N], children: Callable[[N], Iterable[N]]) -> list[N]:
    """All nodes below `roots`, each once, children before parents."""
    order: list[N] = []
    entered: set[N] = set()
    stack = list(roots)
    stack.reverse()
    while stack:
        node = stack.pop()
        if node is _DONE:
            order.append(stack.pop())
        elif node not in entered:
            entered.add(node)
            pending = [child for child in children(node) if child not in entered]
            if pending:
                pending.reverse()
                stack += (node, _DONE, *pending)
            else:
                order.append(node)
    return order


def elements_of(roots: Iterable[Element]) -> list[Element]:
    """All elements below `roots` without entering the arrays they read, arguments first."""
    roots = tuple(roots)
    if len(roots) == 1:
        return [*_below(roots[0]), roots[0]]
    return [*dict.fromkeys(chain.from_iterable((*_below(root), root) for root in roots))]


def _below(root: Element) -> tuple[Element, ...]:
    """All elements below `root`, arguments first. They follow from the node, so they are found once."""
    if not root.args:
        return ()
    found = root.below
    if found is None:
        found = tuple(postorder(root.args, _ARGS))
        if len(found) <= MOST_KEPT_BELOW:
            root.below = found
    return found


def operands(element: Element, op: str) -> list[Element]:
    """The operands of a chain of one associative operation, in order: x, y and z of (x + y) + z."""
    found: list[Element] = []
    work = [element]
    while work:
        e = work.pop()
        if isinstance(e, Apply) and e.op == op:
            work += reversed(e.args)
        else:
            found.append(e)
    return found


def read_by(elements: Iterable[Element]) -> tuple[Array, ...]:
    """The arrays that elements read, each once, in order."""
    return tuple(dict.fromkeys(e.array for e in elements_of(elements) if isinstance(e, Read)))


def is_small(element: Element) -> bool:
    """Whether an array of an element's values is no larger than one of the arrays that it reads."""
    reads = (e for e in elements_of((element,)) if isinstance(e, Read))
    plain = ({i.axis for i in r.args if isinstance(i, Index)} for r in reads)
    return len(element.axes) == 1 or any(axes == element.axes for axes in plain)


def is_computed(element: Element) -> bool:
    """Whether an element, such as a length, depends on what arrays hold."""
    return any(isinstance(e, Read) for e in elements_of((element,)))


def arrays_read(array: Array) -> tuple[Array, ...]:
    """The arrays that the lengths and elements of `array` read, each once, in order."""
    if array.reads is None:
        parts = [*array.shape, *array.domain, *array.elements]
        operands: tuple[Array, ...] = ()
        if isinstance(array, Item):
            operands = array.loop.operands
            parts += [] if array.loop.length is None else [array.loop.length]
        elif isinstance(array, Ruled | Call | Put):
            operands = array.operands
        found = dict.fromkeys((*read_by(parts), *operands))
        array.reads = tuple(found)  # it follows from the node, so it is found once
    return array.reads


def is_number(array: Array) -> bool:
    """Whether an array is an integer that is read at a place: a length may read it, but no such place."""
    found = array.elements if isinstance(array, Map) and not array.rank and array.dtype == "i64" else ()
    return any(isinstance(e, Read) and e.args for e in elements_of(found))


def lengths_read(array: Array) -> tuple[Array, ...]:
    """The arrays whose values are lengths of `array`."""
    return read_by(array.shape)


def arrays_of(results: Iterable[Array]) -> list[Array]:
    """All arrays that `results` are made of, producers first."""
    return postorder(results, arrays_read)


def with_args(element: Element, args: tuple[Element, ...]) -> Element:
    """The same operation on other arguments."""
    if args == element.args:
        return element
    match element:
        case Apply():
            return Apply(element.op, args, element.dtype)
        case Read():
            return Read(element.array, args)
        case Select():
            return Select(args)
    raise AssertionError(f"{type(element).__name__} has no arguments")


def rewrite(
    roots: Iterable[Element],
    visit: Callable[[Element], Element],
    memo: dict[Element, Element] | None = None,
) -> tuple[Element, ...]:
    """Rebuild elements bottom-up: `visit` receives each with its arguments rewritten already."""
    memo = {} if memo is None else memo
    known = len(memo)
    roots = tuple(roots)
    stack = [root for root in reversed(roots) if root not in memo]
    if stack:
        while stack:
            element = stack[-1]
            if element not in memo:
                args = element.args
                pending = [a for a in args if a not in memo]
                if pending:
                    pending.reverse()
                    stack += pending
                    continue
                memo[element] = visit(with_args(element, tuple([memo[a] for a in args])) if args else element)
            stack.pop()
        if tracked() is not None:
            follow(_latest(memo, known))
    return tuple([memo[root] for root in roots])


def _latest(entries: dict[Any, Any], known: int) -> dict[Any, Any]:
    """The entries behind the first `known` ones."""
    return dict(reversed([*islice(reversed(entries.items()), len(entries) - known)]))


def separate(element: Element, domain: Shape, axes: Sequence[int] | None = None) -> Read:
    """An element over a domain as a read of an array over its own axes, in the order of `axes` if given."""
    axes = sorted(element.axes) if axes is None else axes
    body = substitute(element, {k: Index(p) for p, k in enumerate(axes)})
    return Read(Map(tuple(domain[k] for k in axes), body), tuple(map(Index, axes)))


def substitute(
    element: Element, indices: Mapping[int, Element], memo: dict[Element, Element] | None = None
) -> Element:
    """`element` with `Index(k)` replaced by `indices[k]`; axes without an entry stay."""
    if not element.axes or all(isinstance(i, Index) and i.axis == k for k, i in indices.items()):
        return element
    memo = {} if memo is None else memo
    stack = [element]
    while stack:
        e = stack[-1]
        if e not in memo:
            if isinstance(e, Index):
                memo[e] = indices.get(e.axis, e)
            elif not e.axes:
                memo[e] = e
            else:
                args = e.args
                pending = [a for a in args if a not in memo]
                if pending:
                    pending.reverse()
                    stack += pending
                    continue
                memo[e] = with_args(e, tuple([memo[a] for a in args]))
        stack.pop()
    follow(memo)
    return memo[element]


Change = Callable[[tuple[Element, ...]], tuple[Element, ...]]


def inputs_of_rule(array: Ruled) -> tuple[Slot, ...]:
    """The slots of a rule; those that it reads, with the lengths that they have in it."""
    read = {a.position: a for a in arrays_of(array.pulled) if isinstance(a, Slot)}
    return tuple(read.get(s.position, s) for s in slots_of(array.value, array.args))


def with_elements(array: Array, change: Change, size: Change | None = None) -> Array:
    """`array` with its elements changed, and its sizes too, as `size` says if it is given; inputs keep their
    place."""
    size = size or change
    if isinstance(array, Put):  # it has the lengths of its base
        *indices, guard, value = change(array.elements)
        return Put(array.base, array.op, size(array.domain), tuple(indices), guard, value)
    shape = size(array.shape)
    match array:
        case Input():
            return array if shape == array.shape else type(array)(array.position, array.dtype, shape)
        case Item() | Ruled():
            return array
        case Call():
            return array if shape == array.shape else Call(array.op, array.operands, array.dtype, shape)
        case Map():
            (body,) = change((array.body,))
            return array if body is array.body and shape == array.shape else array.changed(shape, body)
        case Reduce():
            return Reduce(array.op, shape, size(array.reduced), *change((array.body,)))
        case Accumulate():
            return Accumulate(shape, size(array.domain), change(array.indices), *change((array.body,)))
        case Contraction():
            return Contraction(shape, size(array.reduced), *change(array.elements))
    raise AssertionError(f"unknown array {type(array).__name__}")


def uses(roots: Sequence[Array]) -> Counter[Array]:
    """The number of uses of each array: as a root, by loops and calls, and by elements that read it."""
    found: Counter[Array] = Counter(roots)
    for array in arrays_of(roots):
        if isinstance(array, Item):
            found.update(array.loop.operands)
        if isinstance(array, Ruled | Call | Put):
            found.update(array.operands)
        elements = elements_of(array.elements)
        arguments = Counter(a for e in elements for a in e.args) + Counter(array.elements)
        for element in elements:
            if isinstance(element, Read):
                found[element.array] += arguments[element]
    return found


class Rewriter:
    """Rebuilds a program, producers first; a pass overrides `element` or `array`.

    Both receive the node rebuilt from rewritten parts; `arrays` and `elements` remember what
    became of each, so that names and places follow their nodes.
    """

    def __init__(self) -> None:
        self.arrays: dict[Array, Array] = {}
        self.elements: dict[Element, Element] = {}
        self.loops: dict[Loop, Loop] = {}
        self.bodies: list[Rewriter] = []
        self.followed: dict[int, int] = {}  # how many entries of `became` the table of origins has

    @property
    def became(self) -> tuple[dict[Any, Any], ...]:
        """What nodes became, step by step."""
        return self.arrays, self.elements

    def inner(self, loop: Loop | Ruled) -> Rewriter | None:
        """The rewriter of a loop's body, or of a rule; None if these stay as they are."""
        return type(self)()

    def element(self, element: Element) -> Element:
        """The replacement of an element."""
        return element

    def array(self, array: Array) -> Array:
        """The replacement of an array."""
        return array

    def stays(self, array: Array) -> bool:
        """Whether an array is known to stay as it is, so that its elements need not be visited."""
        return False

    def reads_the_same(self, array: Array) -> bool:
        """Whether nothing that an array reads has changed."""
        return all(self.arrays[a] is a for a in arrays_read(array))

    def _visit(self, element: Element) -> Element:
        if isinstance(element, Read):
            array = self.arrays[element.array]
            element = element if array is element.array else Read(array, element.args)
        return self.element(element)

    def _change(self, elements: tuple[Element, ...]) -> tuple[Element, ...]:
        return rewrite(elements, self._visit, self.elements)

    def _resize(self, lengths: tuple[Element, ...]) -> tuple[Element, ...]:
        """What becomes of lengths."""
        return self._change(lengths)

    def run(self, results: Iterable[Array]) -> tuple[Array, ...]:
        """Rewrite the arrays `results` and all they are made of."""
        results = tuple(results)
        for array in postorder(results, lambda a: () if a in self.arrays else arrays_read(a)):
            if array not in self.arrays:
                self.arrays[array] = self.array(array if self.stays(array) else self._rebuilt(array))
                if tracked() is not None:
                    self._follow()
        return tuple(self.arrays[r] for r in results)

    def _follow(self) -> None:
        """Record what nodes became since the last time: before their readers, which may take over parts of
        them."""
        fresh = [_latest(each, self.followed.get(id(each), 0)) for each in self.became]
        self.followed |= {id(each): len(each) for each in self.became}
        follow(*fresh)

    def _rebuilt(self, array: Array) -> Array:
        """An array of what became of its parts."""
        match array:
            case Item():
                return self._item(array)
            case Ruled():
                return self._ruled(array)
            case Call():
                array = Call(array.op, self.operands(array), array.dtype, array.shape)
            case Put(base=base) if (changed := self.arrays[base]) is not base:
                array = Put(changed, *(getattr(array, name) for name in Put.fields[1:]))
        return with_elements(array, self._change, self._resize)

    def operands(self, call: Call) -> tuple[Array, ...]:
        """The replacements of the operands of a call."""
        return tuple(self.arrays[a] for a in call.operands)

    def _ruled(self, array: Ruled) -> Ruled:
        """An array with its parts rewritten, and its rule by its own rewriter."""
        inner = self.inner(array)
        pulled = array.pulled
        if inner is not None:
            self.bodies.append(inner)
            pulled = inner.run(pulled)
        return Ruled(self.arrays[array.value], tuple(self.arrays[a] for a in array.args), pulled)

    def _item(self, item: Item) -> Item:
        if item.loop not in self.loops:
            self.loops[item.loop] = self._loop(item.loop)
        return Item(self.loops[item.loop], item.k)

    def _loop(self, loop: Loop) -> Loop:
        """A loop with its operands rewritten, and its body by its own rewriter."""
        length = None if loop.length is None else self._resize((loop.length,))[0]
        inits, scanned, consts = (
            tuple(self.arrays[a] for a in part) for part in (loop.inits, loop.scanned, loop.consts)
        )
        inner = self.inner(loop)
        roots = loop.roots
        if inner is not None:
            self.bodies.append(inner)
            if len(set(consts)) == len(
                consts
            ):  # slots have the lengths of their arrays, whatever is known inside
                given = Loop(length, inits, scanned, consts, (), (), None, loop.backward).slots
                inner.arrays = {**dict(zip(loop.slots, given, strict=True)), **inner.arrays}
            roots = inner.run(roots)
        if len(set(consts)) < len(consts):
            slots = loop.slots if inner is None else [inner.arrays.get(s, s) for s in loop.slots]
            again = _Once(slots, Loop(length, inits, scanned, consts, (), (), None, loop.backward))
            roots, consts = again.run(roots), again.consts
            if inner is not None:
                inner.arrays = {old: again.arrays.get(new, new) for old, new in inner.arrays.items()}
                inner.elements = {old: again.elements.get(new, new) for old, new in inner.elements.items()}
        count, outs = len(loop.results), len(loop.outs)
        test = None if loop.test is None else roots[-1]
        return Loop(
            length, inits, scanned, consts, roots[:count], roots[count : count + outs], test, loop.backward
        )

    def moved(self) -> dict[Node, Node]:
        """The replacement of each node rewritten so far."""
        found = dict[Node, Node](chain.from_iterable(b.moved().items() for b in self.bodies))
        return found | dict[Node, Node](chain(self.arrays.items(), self.elements.items()))

    def func(self, func: Func) -> Func:
        """Rewrite a whole program; an input that something computed replaces stays an input."""
        results = self.run(func.results)
        checks = tuple(replace(c, holds=self.run((c.holds,))[0]) for c in func.checks)
        for old in func.inputs:
            if old not in self.arrays:
                self.arrays[old] = self.array(with_elements(old, self._change))
        moved_inputs = ((i, self.arrays[i]) for i in func.inputs)
        inputs = tuple(new if isinstance(new, Input) else old for old, new in moved_inputs)
        moved = self.moved()
        return func.with_(
            inputs=inputs,
            results=results,
            checks=checks,
            names={moved.get(node, node): name for node, name in func.names.items()},
            spans={moved.get(node, node): span for node, span in func.spans.items()},
            interchanged=frozenset(self.arrays[a] for a in func.interchanged if a in self.arrays),
            across={self.arrays[a]: k for a, k in func.across.items() if a in self.arrays},
        )


class SingleReaders(Rewriter):
    """A rewriter that knows which arrays of a program, or of a body, have one reader; `single` has them."""

    def __init__(self, roots: Sequence[Array]) -> None:
        super().__init__()
        self.single = {array for array, count in uses(roots).items() if count == 1}

    def inner(self, loop: Loop | Ruled) -> Rewriter | None:
        return type(self)(loop.roots)

    def _rebuilt(self, array: Array) -> Array:
        new = super()._rebuilt(array)
        if array in self.single:
            self.single.add(new)
        return new


class _Once(Rewriter):
    """A body, which has `slots`, for a `loop` of whose consts some have become one: each has one slot then.

    Lengths that read one of them, and those that read another, are the same.
    """

    def __init__(self, slots: Sequence[Array], loop: Loop) -> None:
        super().__init__()
        self.consts = tuple(dict.fromkeys(loop.consts))
        rest = loop.length, loop.inits, loop.scanned, self.consts
        now = Loop(*rest, (), (), None, loop.backward).slots
        first = len(now) - len(self.consts)
        place = dict(zip(self.consts, now[first:], strict=True))
        new = (*now[:first], *(place[c] for c in loop.consts))
        self.arrays.update((a, b) for a, b in zip(slots, new, strict=True) if isinstance(a, Slot))

    def inner(self, loop: Loop | Ruled) -> None:
        """Bodies of loops inside have their own slots."""


class Resized(Rewriter):
    """Other lengths in the place of size symbols."""

    def __init__(self, mapping: Mapping[Size, Element]) -> None:
        super().__init__()
        self.mapping = mapping

    def inner(self, loop: Loop | Ruled) -> Rewriter:
        return Resized(self.mapping)

    def element(self, element: Element) -> Element:
        return self.mapping.get(element, element) if isinstance(element, Size) else element


def has_loops(roots: Iterable[Array]) -> bool:
    """Whether arrays are computed by loops."""
    return any(isinstance(a, Item) for a in arrays_of(roots))


class LoopRewriter(Rewriter):
    """Replaces what loops give, once for each loop; a pass overrides `results`."""

    def __init__(self) -> None:
        super().__init__()
        self.made: dict[Loop, Sequence[Array]] = {}

    def func(self, func: Func) -> Func:
        return super().func(func) if has_loops(func.roots) else func

    def array(self, array: Array) -> Array:
        if not isinstance(array, Item):
            return array
        if array.loop not in self.made:
            self.made[array.loop] = self.results(array.loop)
        return self.made[array.loop][array.k]

    def results(self, loop: Loop) -> Sequence[Array]:
        """What becomes of the results of a loop."""
        return loop.items
