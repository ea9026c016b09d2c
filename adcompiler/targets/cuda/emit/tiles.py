"""Pairs of points: loops over the other points read tiles in shared memory, loaded by all threads.

Each thread has one point, and all run the same iterations of an inner loop. If these iterations read only
other points, independent of the outer one, a block loads a tile of them, each thread a part, and every thread
iterates over the tile. Memory is read once per block, and sums have the same order.

All threads of a block take part in the loads and in the barriers, also those beyond the last point; code for
a point is under `if _here`, around the loops over tiles.

Reads of other points in an inner loop, such as y[j, k], use a wide tile: as many rows as fit into memory,
which is known when lengths are (`iterations_of`). It is in the dynamic shared memory of the launch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from adcompiler.ir.nodes import Array, Const, Element, Index, Read, Size, const
from adcompiler.ir.types import NUMPY, Dtype
from adcompiler.ir.walk import elements_of, postorder, read_by, substitute
from adcompiler.kernels.emit.writer import TYPES
from adcompiler.kernels.schedule.schedule_tree import Loop, Task
from adcompiler.loopir.nodes import Access, Verbatim
from adcompiler.loopir.printer import text
from adcompiler.targets.cuda.device.device import TILE
from adcompiler.targets.cuda.emit.device_writer import DeviceWriter
from adcompiler.targets.cuda.emit.steps import NO_AXIS, Shared, Wide
from adcompiler.targets.limits import FEWEST_TILE_ITERATIONS, MOST_TILED_READS, WIDE_TILE_BYTES

ANY_AXIS = -(10**7)  # the axis of a wide read, whatever its loop


Tiles = Mapping[Loop, Shared]


def tiles_of(chain: Sequence[Loop]) -> Tiles:
    """The tiled loops inside the points of `chain`, and their reads."""
    made = {task.array: task.stored for task in chain[0].tasks}
    loops = (item for item in chain[-1].body if isinstance(item, Loop))
    found = {loop: _shared(loop, made) for loop in loops if not _is_short(loop)}
    return {loop: shared for loop, shared in found.items() if shared is not None}


def iterations_of(tiles: Tiles, length: Callable[[Element], int]) -> tuple[int, int]:
    """The iterations of loops per wide tile, 0 if too few, and its bytes."""
    each = max(
        sum(length(w.inside.size) * NUMPY[w.read.dtype].itemsize for w in shared.wide)
        for shared in tiles.values()
    )
    iterations = min(TILE, WIDE_TILE_BYTES // max(each, 1))
    return (iterations, iterations * each) if iterations >= min(FEWEST_TILE_ITERATIONS, TILE) else (0, 0)


def is_wide(tiles: Tiles) -> bool:
    """Whether there are wide tiles."""
    return any(shared.wide for shared in tiles.values())


def _is_short(loop: Loop) -> bool:
    return isinstance(loop.size, Const) and loop.size.value < TILE


def _shared(loop: Loop, made: Mapping[Array, bool]) -> Shared | None:
    """The reads of a loop's iterations, if all depend only on its axis and an inner one; None if a matrix
    over points is also read, which dominates the time. `made` maps arrays that the nest computes to whether
    they are stored; others are in registers."""
    elements = elements_of(_roots(loop.tasks))
    wide: dict[Read, Wide] = {}
    insides = {inside.number: inside for inside in loop.walk() if inside is not loop}
    for e in elements:
        if isinstance(e, Read) and loop.number in e.axes and len(e.axes) > 1 and made.get(e.array, True):
            number = next((k for k in e.axes if k in insides), NO_AXIS)
            if number == NO_AXIS or not _is_row(e, loop.number, insides[number]):
                return None
            size = insides[number].size
            key = substitute(e, {number: Index(ANY_AXIS)})
            assert isinstance(key, Read)
            known = wide.setdefault(key, Wide(e, insides[number]))
            if known.inside.size is not size:
                return None
            known.places[e] = number
    found: dict[Read, None] = {}

    def inside(element: Element) -> tuple[Element, ...]:
        if isinstance(element, Read) and element.axes == {loop.number}:
            found[element] = None
            return ()
        return element.args

    postorder(_roots(loop.tasks), inside)
    reads = [*found, *(w.read for w in wide.values())]
    known_all = all(read.dtype != "bool" and not any(a in made for a in read_by([read])) for read in reads)
    alike = len({w.read.dtype for w in wide.values()}) <= 1
    return (
        Shared(list(found), list(wide.values()))
        if reads and known_all and alike and len(reads) <= MOST_TILED_READS
        else None
    )


def _is_row(read: Read, axis: int, inside: Loop) -> bool:
    """Whether a read covers a whole row or column in the iterations of a loop."""
    plain = all(isinstance(i, Index | Const) for i in read.args)
    axes = sorted(i.axis for i in read.args if isinstance(i, Index))
    return plain and axes == sorted((axis, inside.number)) and isinstance(inside.size, Size)


def _roots(tasks: Iterable[Task]) -> Iterator[Element]:
    for task in tasks:
        yield from task.elements


def allocate(writer: DeviceWriter, tiles: Tiles) -> None:
    """Allocate shared memory for the loops."""
    for name, dtype in dict(n for shared in tiles.values() for n in _names(shared.reads).values()).items():
        writer.line(f"{name} = cuda.shared.array(_TILE, {TYPES[dtype]})")
    for dtype in dict.fromkeys(w.read.dtype for shared in tiles.values() for w in shared.wide):
        writer.line(f"_wide_{dtype} = cuda.shared.array(0, {TYPES[dtype]})")


def _names(reads: Sequence[Read]) -> dict[Read, tuple[str, Dtype]]:
    """The names and types of the tiles of reads."""
    kinds = [read.dtype for read in reads]
    return {r: (f"_tile{kinds[:k].count(r.dtype)}_{r.dtype}", r.dtype) for k, r in enumerate(reads)}


def write(
    writer: DeviceWriter,
    loop: Loop,
    shared: Shared,
    stretch: tuple[str, str],
    start: int,
    body: Callable[[], None],
) -> int:
    """Write a loop, tile by tile, over a `stretch` of its iterations that is the same in all threads of a
    block.

    Lines of the point's scope from `start` on belong to the point; returns the line from which this holds
    again.
    """
    names = {read: name for read, (name, _) in _names(shared.reads).items()}
    axis, nowhere = f"i{loop.number}", Loop(const(1, "i64"), NO_AXIS)
    low, high = map(text, writer.limits(loop)) if loop.bounds else ("", "")
    iterations = "uint64(_iterations)" if shared.wide else "uint64(_TILE)"
    writer.open(nowhere, f"for _from in range({stretch[0]}, {stretch[1]}, {iterations}):")
    writer.line(f"_to = min({stretch[1]}, _from + {iterations})")
    writer.line("_block_sync()")
    if names:
        writer.line(f"{axis} = _from + uint64(cuda.threadIdx.x)")
        writer.open(loop, f"while {axis} < _to:")  # a range would divide by its step
        for read, name in names.items():
            writer.line(f"{name}[{axis} - _from] = {writer.text(read)}")
        writer.line(f"{axis} += uint64(cuda.blockDim.x)")
        writer.close()
    before = dict(writer.tiled)
    _load_wide(writer, loop, shared.wide, iterations)
    writer.line("_block_sync()")
    writer.open(nowhere, "if _here:")
    own = (f"max({low}, _from)", f"min({high}, _to)") if loop.bounds else ("_from", "_to")
    writer.base += 2
    writer.open(loop, f"for {axis} in range({', '.join(own)}):")
    for read, name in names.items():
        writer.define(read, writer.assign(Verbatim(f"{name}[{axis} - _from]")))
    body()
    writer.close()
    writer.base -= 2
    writer.close()
    writer.tiled = before
    guard(writer.scopes[-2], start)
    writer.close()
    return len(writer.scopes[-1])


def _load_wide(writer: DeviceWriter, loop: Loop, wide: Sequence[Wide], iterations: str) -> None:
    """Load rows, with coalesced accesses, and record where their elements are."""
    axis, before = f"i{loop.number}", "uint64(0)"
    for k, rows in enumerate(wide):
        size, last = f"uint64({writer.text(rows.inside.size)})", rows.read.args[-1]
        column, tile = f"i{rows.inside.number}", f"_wide_{rows.read.dtype}"
        writer.line(f"_row{k} = {before}")
        writer.line("_q = uint64(cuda.threadIdx.x)")
        writer.enter_as_one([loop, rows.inside], f"while _q < (_to - _from) * {size}:")
        if isinstance(last, Index) and last.axis == loop.number:
            writer.line(f"{axis} = _from + _q % (_to - _from)")
            writer.line(f"{column} = _q // (_to - _from)")
        else:
            writer.line(f"{axis} = _from + _q // {size}")
            writer.line(f"{column} = _q % {size}")
        writer.line(f"{tile}[_row{k} + ({axis} - _from) * {size} + {column}] = {writer.text(rows.read)}")
        writer.line("_q += uint64(cuda.blockDim.x)")
        writer.loops.pop()
        writer.scopes.pop()
        writer.values.pop()
        writer.close()
        for read, number in rows.places.items():
            at = Verbatim(f"_row{k} + ({axis} - _from) * {size} + i{number}")
            writer.tiled[read] = Access(tile, (at,))
        before = f"_row{k} + {iterations} * {size}"


def guard(lines: list[str], start: int) -> None:
    """Put the lines of a point from `start` on under the condition that the point exists."""
    if len(lines) > start:
        lines[start:] = ["if _here:", *("    " + line for line in lines[start:])]
