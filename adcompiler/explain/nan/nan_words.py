"""The description of a non-finite operation: its place, its operands, and the derivative it is part of."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from adcompiler.errors import Source, Span
from adcompiler.explain.limits import LONGEST_OPERAND, MOST_OPERANDS
from adcompiler.explain.nan.nan_places import Standing, Values
from adcompiler.explain.nan.remedies import bare, formula, unwrapped
from adcompiler.frontend.grammar import tree
from adcompiler.frontend.lowering.rule_texts import names_in
from adcompiler.interpreter.history import Frame
from adcompiler.interpreter.nonfinite import Event
from adcompiler.ir.loop import Item, Slot
from adcompiler.ir.nodes import Apply, Array, Call, Const, Element, Func, Input, Map, Node, Read, Reduce
from adcompiler.ir.origins import Origin, Origins
from adcompiler.ir.types import is_float
from adcompiler.ir.walk import elements_of
from adcompiler.lazy_dataclass import dataclass
from adcompiler.ops.library import LIBRARY
from adcompiler.ops.table import TABLE


@dataclass(frozen=True)
class Operand:
    """An operand as the user wrote it, where it is read, and its value there."""

    text: str
    index: tuple[int, ...]
    value: float

    @property
    def label(self) -> str:
        """The operand with its index: `x[3]`."""
        if not self.index:
            return self.text
        place = ", ".join(map(str, self.index))
        if self.text.endswith("]"):  # the user's own index says which element it is
            return self.text
        return f"{bare(self.text)}[{place}]"


class SourceWords:
    """The names and places of one program."""

    def __init__(self, func: Func, table: Origins) -> None:
        self.func, self.table = func, table

    # -- places --------------------------------------------------------------------------------

    def origin(self, event: Event) -> Origin | None:
        """Where an operation comes from; else the array in which it stands, or what it is made of."""
        nodes = self.table.nodes
        if isinstance(event.element, Const):
            known = self.table.constants.get(repr(float(event.value)))
            if known is not None:
                return known[0]
        own: list[Node] = [event.array] if event.element is None else [event.element, event.array]
        around: Sequence[Node] = list(reversed(list(event.values)))
        found = next((nodes[n] for n in (*own, *around) if n in nodes), None)
        if found is not None:
            return found
        loops = [item for loop, _ in event.frame.iterations[::-1] for item in loop.items]
        return next((nodes[n].own for n in loops if n in nodes), None)

    def base(self, origin: Origin) -> Node | None:
        """The program's own operation that something is the derivative of, of whatever order."""
        node = origin.of
        while node is not None and (before := self.table.nodes.get(node)) is not None:
            if before.of is None:
                return node
            node = before.of
        return node

    def text(self, source: Source | None, span: Span) -> str:
        """What stands at a place, in one line."""
        return "" if source is None else source.text_of(span)

    # -- operands ------------------------------------------------------------------------------

    def operands(self, node: Node, event: Event) -> list[Operand]:
        """The operands of the program's own operation `node`, as far as the event knows their values."""
        if isinstance(node, Apply):
            here = self.standing(node, event)
            if here is not None:
                texts = self._texts(node, here.element, event.frame)
                return [
                    self._operand(text, arg, here.point, here.values)
                    for text, arg in zip(texts, here.element.args, strict=True)
                    if is_float(arg.dtype) or arg.dtype == "i64"
                ]
            result = self._result(node, event)
            found = list(self._by_text(node, event)) or ([] if result is None else [result])
            if found:
                return found
        return list(self._leaves(event))

    def _by_text(self, node: Apply, event: Event) -> Iterator[Operand]:
        """The operands of an operation as far as a partial derivative reads them."""
        origin = self.table.nodes.get(node)
        texts = set() if origin is None else set(self.written(origin))
        for element in event.values:
            known = self.table.nodes.get(element)
            if known is not None and known.of is None and is_float(element.dtype):
                text = unwrapped(self.text(known.source, known.span))
                if text in texts and origin is not None and origin.own.within == known.within:
                    yield self._operand(text, element, event.point, event.values)

    def _result(self, node: Apply, event: Event) -> Operand | None:
        """The result of an operation of which a partial derivative reads nothing else."""
        origin = self.table.nodes.get(node)
        inside = elements_of(() if event.element is None else (event.element,))
        read = [e for e in inside if isinstance(e, Read) and is_float(e.dtype)]
        if origin is None or len(read) != 1 or node.op not in TABLE:
            return None
        texts = TABLE[node.op].partials
        if not all("r" in names_in(t) and len(names_in(t)) == 1 for t in texts):
            return None
        operand = self._operand(self.text(origin.source, origin.span), read[0], event.point, event.values)
        return operand if operand.text else None

    def standing(self, node: Node | None, event: Event) -> Standing | None:
        """An operation as it stands at the event: its indices may have other names there."""
        if not isinstance(node, Apply):
            return None
        wanted = self.table.nodes.get(node)
        around = list(self._around(event))
        for point, values in around:
            if node in values:
                return Standing(node, point, values)
        for point, values in around if wanted is not None else ():
            for element in values:
                same = isinstance(element, Apply) and element.op == node.op
                if same and self.table.nodes.get(element) == wanted:
                    return Standing(element, point, values)
        return None

    def _around(self, event: Event) -> Iterator[tuple[tuple[int, ...], Values]]:
        """The elements at an event, and those of the arrays that it reads, where they are read."""
        yield event.point, event.values
        for element in event.values:
            if isinstance(element, Read) and isinstance(element.array, Map):
                index = tuple(int(event.values[i]) for i in element.args)
                shape = np.shape(event.frame.values.get(element.array, ()))
                inside = len(shape) == len(index) and all(
                    0 <= i < n for i, n in zip(index, shape, strict=True)
                )
                if inside and element.array in event.frame.values:
                    yield index, event.frame.at(element.array, index)

    def _operand(self, text: str, arg: Element, point: tuple[int, ...], values: Values) -> Operand:
        index: tuple[int, ...] = ()
        if isinstance(arg, Read) and (isinstance(arg.array, Input) or arg.axes):
            index = tuple(int(values[i]) for i in arg.args)
        elif arg.axes:
            index = tuple(point[k] for k in sorted(arg.axes) if 0 <= k < len(point))
        return Operand(text, index, values[arg].item())

    def _texts(self, node: Apply, element: Element, frame: Frame) -> list[str]:
        """The operands as the user wrote them; else by their names."""
        origin = self.table.nodes.get(node)
        written = [] if origin is None else self.written(origin)
        if len(written) == len(element.args):
            return written
        return [self.named(arg, frame) for arg in element.args]

    def written(self, origin: Origin) -> list[str]:
        """The operands of the expression at a place."""
        node = self.table.trees.get((id(origin.source), origin.span))
        parts: Sequence[tree.Tree] = ()
        match node:
            case tree.Binary():
                parts = (node.left, node.right)
            case tree.Unary():
                parts = (node.operand,)
            case tree.Augmented():
                parts = (node.target, node.value)
            case tree.Call(function=tree.Attribute() as method) if not _is_module(method.value):
                parts = (method.value, *node.arguments)
            case tree.Call():
                parts = node.arguments
        texts = [unwrapped(self.text(origin.source, part.span)) for part in parts]
        return texts if all(texts) else []  # trees of SymPy have no places

    def target(self, origin: Origin) -> str | None:
        """The name that an operation assigns to, `x /= y`; None for an expression."""
        node = self.table.trees.get((id(origin.source), origin.span))
        return self.text(origin.source, node.target.span) if isinstance(node, tree.Augmented) else None

    def named(self, element: Element, frame: Frame) -> str:
        """An element in words: a name, a number, what the user wrote, or an operation of such."""
        if isinstance(element, Const):
            return f"{element.value:.6g}"
        nodes: list[Node] = [element]
        if isinstance(element, Read):
            array = made_by(element.array, frame)
            if array in self.func.names:
                return self.func.names[array]
            nodes = [array, *array.elements[-1:]]
        for origin in (self.table.nodes[n] for n in nodes if n in self.table.nodes):
            found = self.text(origin.source, origin.span) if origin.of is None else ""
            if 0 < len(found) <= LONGEST_OPERAND:
                return found
        if isinstance(element, Apply) and element.op not in TABLE:
            return self.named(element.args[0], frame)  # a conversion
        if isinstance(element, Apply):
            return formula(element.op, [self.named(a, frame) for a in element.args])
        return "a value"

    def named_input(self, array: Input) -> str:
        """The name of an argument."""
        return self.func.input_names[self.func.inputs.index(array)]

    def _leaves(self, event: Event) -> Iterator[Operand]:
        """What an event reads: arrays and their elements."""
        if event.element is None and isinstance(event.array, Call | Item):
            return
        count = 0
        roots = [event.element] if event.element is not None else [event.array.elements[-1]]
        for element in elements_of(roots):
            if isinstance(element, Read) and element in event.values and is_float(element.dtype):
                count += 1
                if count <= MOST_OPERANDS:
                    yield self._operand(self.named(element, event.frame), element, event.point, event.values)


def made_by(array: Array, frame: Frame) -> Array:
    """What computes the array that a loop's body reads; of what a derivative saves, in its iteration."""
    while isinstance(array, Slot) and frame.inside is not None:
        outer, loop, _, _ = frame.inside
        kind, k = outer.histories[loop].operand(array)
        if kind not in ("row", "const"):
            break
        array, frame = (loop.scanned if kind == "row" else loop.consts)[k], outer
    if isinstance(array, Item) and 0 <= array.k - len(array.loop.results) < len(array.loop.outs):
        return array.loop.outs[array.k - len(array.loop.results)]
    return array


MODULES = ("np", "numpy", "math", "linalg", "jnp", "sp", "scipy", "stats")


def _is_module(node: tree.Tree) -> bool:
    """Whether a tree names a module, as np or np.linalg."""
    if isinstance(node, tree.Attribute):
        return _is_module(node.value)
    return isinstance(node, tree.Name) and node.id in MODULES


def number(value: Any) -> str:
    """A number, short."""
    found = float(value)
    return f"{found:.6g}" if found == float(f"{found:.6g}") or not np.isfinite(found) else repr(found)


def arithmetic(event: Event) -> str:
    """An operation with its numbers: `0 * inf is nan`."""
    element = event.element
    if isinstance(element, Apply):
        args = [number(event.values[a]) for a in element.args]
        op = element.op if element.op in TABLE else f"conversion to {element.op}"
        return f"{formula(op, args)} is {number(event.value)}"
    return f"{operation(event)} is {number(event.value)}"


def operation(event: Event) -> str:
    """The name of an operation."""
    if isinstance(event.element, Const):
        return "constant"
    if isinstance(event.element, Apply):
        return event.element.op
    if isinstance(event.array, Call):
        return event.array.op if event.array.op in LIBRARY else "a routine"
    return event.array.op if isinstance(event.array, Reduce) else "sum"
