"""Pairs of points: what the turns of a loop read lies in shared memory, tile by tile, for all threads.

Threads take a point each, and all of them the same turns of a loop inside. Where these turns read other
points only, which the point around does not decide, a block loads a tile of them, each thread some, and every
thread goes through the tile. Memory is read once a block, and sums have the same order.

All threads of a block take part in the loads and meet at the barriers, those beyond the last point too; what
belongs to a point stands under `if _here`, around the loops over tiles.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from adcompiler.codegen.cuda.device import TILE
from adcompiler.codegen.cuda.steps import NOWHERE
from adcompiler.codegen.cuda.writer import DeviceWriter
from adcompiler.codegen.nests import Loop, Task
from adcompiler.codegen.writer import TYPES
from adcompiler.ir.nodes import Array, Const, Element, Read, const
from adcompiler.ir.types import Dtype
from adcompiler.ir.walk import elements_of, postorder, read_by

MOST_READS = 8  # of one loop: more of shared memory leaves fewer blocks on a processor
Tiles = Mapping[Loop, Sequence[Read]]


def tiles_of(chain: Sequence[Loop]) -> Tiles:
    """The loops inside the points of `chain` that go through tiles, and what they read."""
    made = {a for task in chain[0].tasks for a in task.arrays}
    loops = (item for item in chain[-1].body if isinstance(item, Loop))
    found = {loop: _reads(loop, made) for loop in loops if not _is_short(loop)}
    return {loop: reads for loop, reads in found.items() if reads}


def _is_short(loop: Loop) -> bool:
    return isinstance(loop.size, Const) and loop.size.value < TILE


def _reads(loop: Loop, made: set[Array]) -> list[Read]:
    """What the turns of a loop read, if all of it is of their axis alone: where a matrix is read as well,
    that takes the time."""
    elements = elements_of(_roots(loop.tasks))
    if any(isinstance(e, Read) and loop.number in e.axes and len(e.axes) > 1 for e in elements):
        return []
    found: dict[Read, None] = {}

    def inside(element: Element) -> tuple[Element, ...]:
        if isinstance(element, Read) and element.axes == {loop.number}:
            found[element] = None
            return ()
        return element.args

    postorder(_roots(loop.tasks), inside)
    known = all(read.dtype != "bool" and made.isdisjoint(read_by([read])) for read in found)
    return list(found) if known and len(found) <= MOST_READS else []


def _roots(tasks: Iterable[Task]) -> Iterator[Element]:
    for task in tasks:
        yield from task.elements


def allocate(writer: DeviceWriter, tiles: Tiles) -> None:
    """Shared memory for the loops, one after the other."""
    for name, dtype in dict(n for reads in tiles.values() for n in _names(reads).values()).items():
        writer.line(f"{name} = cuda.shared.array(_TILE, {TYPES[dtype]})")


def _names(reads: Sequence[Read]) -> dict[Read, tuple[str, Dtype]]:
    """The names of the tiles of some reads, and their types."""
    kinds = [read.dtype for read in reads]
    return {r: (f"_tile{kinds[:k].count(r.dtype)}_{r.dtype}", r.dtype) for k, r in enumerate(reads)}


def write(
    writer: DeviceWriter,
    loop: Loop,
    reads: Sequence[Read],
    stretch: tuple[str, str],
    start: int,
    body: Callable[[], None],
) -> int:
    """A loop, tile by tile, over a `stretch` of its turns that is the same in all threads of a block.

    What stands in the scope of the point from line `start` on belongs to the point; returns the line from
    which on that is so again.
    """
    names = {read: name for read, (name, _) in _names(reads).items()}
    axis, nowhere = f"i{loop.number}", Loop(const(1, "i64"), NOWHERE)
    low, high = writer.limits(loop) if loop.bounds else ("", "")
    writer.open(nowhere, f"for _from in range({stretch[0]}, {stretch[1]}, uint64(_TILE)):")
    writer.line(f"_to = min({stretch[1]}, _from + uint64(_TILE))")
    writer.line("_block_sync()")
    writer.line(f"{axis} = _from + uint64(cuda.threadIdx.x)")
    writer.open(loop, f"while {axis} < _to:")  # a range would divide by its step
    for read, name in names.items():
        writer.line(f"{name}[{axis} - _from] = {writer.text(read)}")
    writer.line(f"{axis} += uint64(cuda.blockDim.x)")
    writer.close()
    writer.line("_block_sync()")
    writer.open(nowhere, "if _here:")
    own = (f"max({low}, _from)", f"min({high}, _to)") if loop.bounds else ("_from", "_to")
    writer.base += 2
    writer.open(loop, f"for {axis} in range({', '.join(own)}):")
    for read, name in names.items():
        writer.define(read, writer.assign(f"{name}[{axis} - _from]"))
    body()
    writer.close()
    writer.base -= 2
    writer.close()
    guard(writer.scopes[-2], start)
    writer.close()
    return len(writer.scopes[-1])


def guard(lines: list[str], start: int) -> None:
    """Put the lines of a point from `start` on under the condition that there is such a point."""
    if len(lines) > start:
        lines[start:] = ["if _here:", *("    " + line for line in lines[start:])]
