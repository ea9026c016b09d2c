"""The writer of kernels: points shared by threads, and teams of threads that share loops."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from adcompiler.ir.nodes import Array, Element, Input, Node, Read
from adcompiler.ir.origins import emitted_in
from adcompiler.kernels.emit.writer import Writer, axis_name
from adcompiler.kernels.schedule.schedule_tree import Loop
from adcompiler.loopir.nodes import Call, Expr, For, If, Stmt, Var, Verbatim, While, unsigned
from adcompiler.loopir.printer import lines
from adcompiler.loopir.walk import walk
from adcompiler.targets.limits import LINES_OF_A_CALL, MOST_COPIES, MOST_LINES

# -- unroll ------------------------------------------------------------------------------------------
# Several points per iteration for single threads: all are loaded before the first is stored.
#
# A thread's loads wait for its stores, because the compiler cannot rule out aliases; with one point per
# iteration, memory is idle. Only straight-line code is unrolled; accumulators stay one variable.


_ASSIGNED = re.compile(r"(\w+) = ")
_STORED = re.compile(r"\w+\[.*?\] = ")


def copies(lines: Sequence[str]) -> int:
    """The number of points per iteration; 1 for long code or code with branches."""
    if any(line.startswith(" ") or line.endswith(":") for line in lines):
        return 1
    computed = [line for line in lines if not line.startswith("#") and not _STORED.match(line)]
    length = len(computed) + LINES_OF_A_CALL * sum(line.count("math.") for line in computed)
    return max(min(MOST_COPIES, MOST_LINES // max(length, 1)), 1)


def unrolled(
    lines: Sequence[str], outside: Sequence[str], point: str, step: str, total: str, count: int
) -> list[str]:
    """A loop of `count` points per iteration; a separate loop runs the remaining points."""
    kept = {m[1] for line in outside if (m := _ASSIGNED.match(line))}
    own = {m[1] for line in lines if (m := _ASSIGNED.match(line))} - kept
    first: list[str] = []
    stores: list[str] = []
    for k in range(count):
        names = {name: f"_{name}_{k}" for name in (*own, point)} if k else {}
        if k:
            first.append(f"{names[point]} = {point} + uint64({k}) * {step}")
        for line in lines:
            if not (k and line.startswith("#")):
                found = re.sub(r"\b[^\W\d]\w*\b", lambda m, n=names: n.get(m[0], m[0]), line)  # type: ignore[misc]
                (stores if _STORED.match(line) else first).append(found)
    body = [*first, *stores, f"{point} += uint64({count}) * {step}"]
    return [f"while {point} + uint64({count - 1}) * {step} < {total}:", *("    " + line for line in body)]


Slot = tuple[str, int]  # storage of a scalar between kernels: a buffer and an index


class DeviceWriter(Writer):
    """A writer of one kernel.

    Outside of the loops that a `team` shares ("block", "warp"; "" for single threads), all its threads do the
    same work; shared loops are between barriers.
    """

    team: str = ""
    intrinsics: Mapping[str, str] = {
        "add": "add_rn",
        "subtract": "sub_rn",
        "multiply": "mul_rn",
        "square": "mul_rn",
        "divide": "div_rn",
    }
    half = False  # whether inputs of float32 may be stored in 16 bits

    def __init__(
        self,
        labels: Mapping[Array, str],
        sizes: tuple[str, ...],
        names: Mapping[Element, str],
        slots: dict[Array, Slot],
    ) -> None:
        super().__init__(labels, sizes, (), names)
        self.slots = slots
        self.tiled: dict[Read, Expr] = {}  # elements in shared memory
        self.local: set[Array] = set()  # scalars that this kernel computes
        self.origins: dict[str, list[Node]] = {}  # nodes that lines were written for

    def label(self, array: Array) -> str:
        if array in self.slots and array not in self.local:
            buffer, place = self.slots[array]
            return f"{self.use(buffer)}[{place}]"
        return super().label(array)

    def place(
        self, array: Array, indices: Sequence[Element], made: Sequence[Expr]
    ) -> tuple[Expr, Expr | None]:
        spot, inside = super().place(array, indices, made)
        stored = self.half and isinstance(array, Input) and array.dtype == "f32"
        return Call("wide", (spot,)) if stored else spot, inside

    def operation(self, element: Element, args: Sequence[Expr]) -> Expr:
        if isinstance(element, Read) and element in self.tiled:
            return self.tiled[element]
        return super().operation(element, args)

    def over(self, axis: str, size: Element, depth: int = 0) -> For:
        if self.team and not depth:
            return For(axis, Var("_lane"), unsigned(self.written(size)), step=Var("_lanes"))
        return super().over(axis, size, depth)

    # Device kernels are text: loop IR nodes are printed as they are added.

    def add(self, statement: Stmt, level: int = -1) -> None:
        found = list(lines([statement]))
        self.scopes[level].extend(found)
        if nodes := emitted_in(walk(statement)):
            self.origins.setdefault(found[0], nodes)

    def line(self, text: str) -> None:
        self.scopes[-1].append(text)

    def open(self, loop: Loop, head: For | While | If | str) -> None:
        self.loops.append(loop)
        self.scopes.append([head if isinstance(head, str) else next(lines([head]))])
        self.values.append({})

    def close(self) -> None:
        self.loops.pop()
        self.values.pop()
        header, *found = self.scopes.pop()
        self.scopes[-1].append(header)
        self.scopes[-1].extend("    " + line for line in found or ["pass"])

    def sync(self) -> None:
        """Write a barrier of the team, unless one was just written."""
        barrier = f"_{self.team}_sync()"
        if self.team and self.scopes[-1][-1:] != [barrier]:
            self.line(barrier)

    def enter_points(self, chain: Sequence[Loop], first: str, step: str, together: bool = False) -> None:
        """Enter loops whose points are distributed over threads in turn.

        With `together`, all threads of a block stay until the last point is done; `_here` is whether a thread
        has one."""
        count = self.count
        self.count += 1
        lengths = []
        for d, loop in enumerate(chain):
            lengths.append(f"_n{count}_{d}")
            self.line(f"{lengths[d]} = uint64({self.text(loop.size)})")
        point = f"_p{count}"
        self.line(f"{point} = {first}")
        total = " * ".join(lengths)
        self.enter_as_one(chain, f"while {point}{' - uint64(cuda.threadIdx.x)' * together} < {total}:")
        if together:
            self.line(f"_here = {point} < {total}")
        rest = point
        for d in range(len(chain) - 1, 0, -1):
            self.line(f"{axis_name(chain[d].number)} = {rest} % {lengths[d]}")
            rest = self.assign(Verbatim(f"{rest} // {lengths[d]}"))
        self.line(f"{axis_name(chain[0].number)} = {rest}")
        self.after = [*self.after, f"{point} += {step}"]

    def enter_part(self, loop: Loop, first: str, last: str, step: str) -> None:
        """Enter a part of a loop."""
        point = f"_p{self.count}"
        self.count += 1
        self.line(f"{point} = {first}")
        self.enter_as_one([loop], f"while {point} < {last}:")
        self.line(f"{axis_name(loop.number)} = {point}")
        self.after = [*self.after, f"{point} += {step}"]

    after: list[str] = []  # lines that end iterations of distributed loops  # noqa: RUF012

    def enter_as_one(self, chain: Sequence[Loop], header: str) -> None:
        """Enter loops that are one loop in the text, and share their scopes."""
        self.open(chain[0], header)
        for loop in chain[1:]:
            self.loops.append(loop)
            self.scopes.append(self.scopes[-1])
            self.values.append(self.values[-1])

    def leave_points(self, chain: Sequence[Loop], several: bool = False) -> None:
        """Leave the loops over points; with `several`, unroll straight-line code over points."""
        *self.after, last = self.after
        for _ in chain[1:]:
            self.loops.pop()
            self.scopes.pop()
            self.values.pop()
        header, *found = self.scopes[-1]
        count = copies(found) if several else 1
        if count > 1:
            point, _, step = last.split(" ", 2)
            total = header.removeprefix(f"while {point} < ").removesuffix(":")
            name, before = f"{point}_step", [line for scope in self.scopes[:-1] for line in scope]
            self.scopes[-2].append(f"{name} = {step}")
            self.scopes[-2].extend(unrolled(found, before, point, name, total, count))
            last = f"{point} += {name}"
        self.line(last)
        self.close()
