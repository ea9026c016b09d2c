"""Loops: nodes whose body is a program. `bodies.py` builds and opens them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from adcompiler.ir.nodes import Apply, Array, Element, Input, Node, Read, Select, Shape
from adcompiler.ir.types import Dtype


class Slot(Input):
    """An input of a loop's body; positions count from 0 in every body."""

    __slots__ = ()


class Loop(Node):
    """`length` iterations of a body over carried arrays; or iterations while `test` holds, if it has no
    length.

    The body is a separate program, closed: its inputs are `Slot`s, first the number of the iteration
    (int64), then what is carried, then a row of each of the `scanned` arrays, the one of the iteration's
    number (zeros beyond its end), then the `consts`. Its results are what is carried on, then the `outs`:
    rows that are collected, each at the iteration's number. A `backward` loop runs from the last iteration to
    the first. A loop `is_minimal` if all that it carries and collects is known to be needed where all that it
    gives is.
    """

    __slots__ = (
        *("backward", "consts", "inits", "length", "outs", "results", "scanned", "test"),
        *("is_minimal", "known_slots"),
    )
    fields = ("length", "inits", "scanned", "consts", "results", "outs", "test", "backward")
    length: Element | None
    inits: tuple[Array, ...]
    scanned: tuple[Array, ...]
    consts: tuple[Array, ...]
    results: tuple[Array, ...]
    outs: tuple[Array, ...]
    test: Array | None
    backward: bool
    is_minimal: bool
    known_slots: tuple[Slot, ...] | None

    def _derive(self) -> None:
        self.dtype = "i64"
        self.is_minimal = False
        self.known_slots = None

    @property
    def operands(self) -> tuple[Array, ...]:
        """The arrays that the loop reads, all of each."""
        return (*self.inits, *self.scanned, *self.consts)

    @property
    def slots(self) -> tuple[Slot, ...]:
        """The inputs of the body: the iteration's number, then one for each operand.

        A length that reads a const of the loop reads its slot in the body.
        """
        if self.known_slots is None:
            self.known_slots = self._slots()
        return self.known_slots

    def _slots(self) -> tuple[Slot, ...]:
        first = 1 + len(self.inits) + len(self.scanned)
        places = {a: Slot(first + k, a.dtype, ()) for k, a in enumerate(self.consts) if not a.rank}
        shapes: list[tuple[Dtype, Shape]] = [("i64", ())]
        shapes += [(a.dtype, a.shape) for a in self.inits]
        shapes += [(a.dtype, a.shape[1:]) for a in self.scanned]
        shapes += [(a.dtype, a.shape) for a in self.consts]
        return tuple(
            Slot(k, dtype, tuple(inside(n, places) for n in shape)) for k, (dtype, shape) in enumerate(shapes)
        )

    @property
    def const_slots(self) -> tuple[Slot, ...]:
        """The inputs of the body that stand for the consts."""
        return self.slots[len(self.slots) - len(self.consts) :]

    @property
    def roots(self) -> tuple[Array, ...]:
        """The values of the body: results, outs, and the test."""
        return (*self.results, *self.outs, *(() if self.test is None else (self.test,)))

    @property
    def items(self) -> tuple[Item, ...]:
        """The arrays that the loop gives: what it carries in the end, its outs, and the number of
        iterations."""
        return tuple(
            Item(self, k) for k in range(len(self.results) + len(self.outs) + (self.test is not None))
        )


class Item(Array):
    """One of the arrays that a loop gives."""

    __slots__ = ("k", "loop")
    fields = ("loop", "k")
    loop: Loop
    k: int

    def _derive(self) -> None:
        super()._derive()
        loop, count = self.loop, len(self.loop.results)
        if self.k < count:
            self.dtype, self.shape = loop.inits[self.k].dtype, loop.inits[self.k].shape
        elif self.k < count + len(loop.outs):
            assert loop.length is not None
            out = loop.outs[self.k - count]
            outside = dict(zip(loop.const_slots, loop.consts, strict=True))
            shape = tuple(inside(n, outside) for n in out.shape)
            self.dtype, self.shape = out.dtype, (loop.length, *shape)
        else:
            self.dtype, self.shape = "i64", ()


def inside(length: Element, places: Mapping[Any, Array]) -> Element:
    """A length with what it reads replaced: by slots inside a body, by consts outside."""
    args = tuple(inside(a, places) for a in length.args)
    match length:
        case Read(array=array) if array in places:
            return Read(places[array], args)
        case Apply():
            return Apply(length.op, args, length.dtype)
        case Select():
            return Select(args)
    return length
