"""The driver of a kernel for one thread.

A nest runs as one block, unless it leaves a partial result for each block: these keep sums accurate. Partial
sums that are numbers are added up as they come, so that one number is enough for them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from adcompiler.kernels.emit.kernel import Kernel
from adcompiler.loopir.nodes import (
    BLOCK,
    Access,
    Assign,
    Call,
    Compare,
    Expr,
    For,
    Function,
    If,
    Invoke,
    Stmt,
    Store,
    Var,
    literal,
)
from adcompiler.loopir.rewrite import Filled, Restructurer
from adcompiler.loopir.walk import walk


class OneThread(Restructurer):
    """Rewrites a driver. `divided` are the nests that run in blocks, and `added` those of them whose partial
    results need the memory of one block only."""

    def __init__(self, kernel: Kernel) -> None:
        self.parts: dict[str, set[str]] = {}
        arrays = set()
        for b in kernel.plan.buffers:
            if b.nest is not None and b.name not in kernel.rows:
                self.parts.setdefault(f"nest{b.nest}", set()).add(b.name)
                arrays |= {f"nest{b.nest}"} if b.shape else set()
        self.numbers = self.parts.keys() - arrays
        self.divided = frozenset(k for k in range(kernel.plan.nests) if f"nest{k}" in self.parts)
        self.added: set[int] = set()

    def function(self, function: Function) -> Function:
        """The rewritten driver."""
        return replace(function, body=self.body(function.body))

    def body(self, found: Iterable[Stmt]) -> list[Stmt]:
        made: list[Stmt] = []
        left = list(found)
        while left:
            statement, left = left[0], left[1:]
            match statement:
                case For(body=[Invoke(name=nest, args=(_, _, Call(args=(_, size)), *others))]) if (
                    nest not in self.parts
                ):
                    called = Invoke(nest, (literal(0), literal(0), size, *others))
                    made.append(If(Compare(">", size, literal(0)), [called]))
                case For(body=[Invoke(name=nest, args=(_, *others))]) if nest in self.numbers:
                    count, merged = self.merged(statement, Invoke(nest, (literal(0), *others)), left)
                    made += merged
                    left = left[count:]
                case _:
                    made.append(self.stmt(statement))
        return made

    def merged(self, loop: For, called: Invoke, rest: Sequence[Stmt]) -> tuple[int, list[Stmt]]:
        """A loop over blocks that adds up their numbers, and how many of the statements behind it are part of
        it; the loop as it is if these do not add up all of them."""
        waiting, count = set(self.parts[called.name]), 0
        before: list[Stmt] = []
        inside: list[Stmt] = [called]
        after: list[Stmt] = []
        while waiting and count < len(rest):
            match rest[count : count + 2]:
                case [Assign() as start, For(body=[Assign(name=name, value=value)], kind="blocks")] if (
                    start.name == name and (own := _arrays(value) & waiting)
                ):
                    waiting -= own
                    before.append(start)
                    inside.append(Assign(name, Filled({BLOCK.name: literal(0)}).expr(value)))
                    count += 2
                case [Store(value=Var()) as store, *_]:
                    after.append(store)
                    count += 1
                case _:
                    break
        if waiting:
            return 0, [loop]
        self.added.add(int(called.name.removeprefix("nest")))
        return count, [*before, replace(loop, body=inside), *after]


def _arrays(value: Expr) -> set[str]:
    return {n.array for n in walk(value) if isinstance(n, Access)}
