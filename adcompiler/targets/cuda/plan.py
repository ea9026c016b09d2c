"""The threads of a nest and their shares: determined by lengths only, so sums keep their bits."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from adcompiler.lazy_dataclass import dataclass
from adcompiler.targets.limits import FEWEST_SLICE_ITERATIONS, MOST_SLICES


@dataclass(frozen=True)
class Machine:
    """The parameters of launches: threads per block, lanes per warp, threads that keep a device busy, points
    that are enough for one thread each, and the least iterations of a tiled loop."""

    threads: int
    warp: int
    busy: int
    enough: int
    most_blocks: int
    tile: int


DEVICE = Machine(threads=256, warp=32, busy=2**18, enough=2**14, most_blocks=2**12, tile=256)
SIMULATOR = Machine(threads=4, warp=4, busy=16, enough=12, most_blocks=3, tile=4)


@dataclass(frozen=True)
class Launch:
    """The threads of a nest: the team, the blocks along both axes of the grid, iterations per slice (0: not
    sliced), and whether loops are tiled, with the iterations and bytes of wide tiles."""

    team: str
    blocks: int
    slices: int
    threads: int
    chunk: int
    tiled: bool
    iterations: int = 0
    memory: int = 0


def launch(
    machine: Machine, points: int, iterations: int, inner: int | None, neighbours: bool, shared: int = 0
) -> Launch:
    """The threads of a nest over `points` with `iterations` inside each.

    `inner` is the length of the loop that may be sliced, if any; `neighbours` is whether a team reads
    adjacent elements inside; `shared` is the length of the longest loop that may be tiled.
    """
    team = _team(machine, points, iterations, neighbours, inner is not None)
    width = {"": 1, "warp": machine.warp, "block": machine.threads}[team]
    slices, chunk = 1, 0
    if inner is not None and points * width < machine.busy and inner > 1:
        fewest = FEWEST_SLICE_ITERATIONS if machine.threads > machine.warp else 1
        wanted = min(machine.busy // max(points * width, 1), inner // (fewest * width), MOST_SLICES)
        if wanted > 1:
            chunk = -(-inner // wanted)
            slices = -(-inner // chunk)
    blocks = -(-points * width // machine.threads)
    tiled = not team and shared > 0 and (chunk if slices > 1 else shared) >= machine.tile
    return Launch(team, max(min(blocks, machine.most_blocks), 1), slices, machine.threads, chunk, tiled)


def _team(machine: Machine, points: int, iterations: int, neighbours: bool, sliceable: bool) -> str:
    few = points < machine.enough
    if iterations < machine.warp // 2 or not (neighbours or few):
        return ""
    if not neighbours and sliceable and points >= machine.warp:
        return ""
    long = iterations >= 2 * machine.threads and points * machine.warp < machine.busy
    return "block" if long else "warp"


def points_of(lengths: Sequence[int]) -> int:
    """The number of points."""
    return prod(max(n, 0) for n in lengths)
