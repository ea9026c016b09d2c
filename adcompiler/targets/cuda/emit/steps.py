"""Steps of a program on a device: nests, scatters, products, and single blocks."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field

from adcompiler.ir.nodes import Array, Call, Element, Node, Read, Reduce, Shape
from adcompiler.kernels.schedule.schedule_tree import Loop, Recurrence, Task, computed
from adcompiler.lazy import cached_property
from adcompiler.lazy_dataclass import dataclass

ONE_BLOCK = "_lane = uint64(cuda.threadIdx.x)", "_lanes = uint64(cuda.blockDim.x)"
NO_AXIS = -(10**8)  # the axis number of scopes that are not loops
_POINT = "uint64(cuda.blockIdx.x) * uint64(cuda.blockDim.x) + uint64(cuda.threadIdx.x)"
_STEP = "uint64(cuda.gridDim.x) * uint64(cuda.blockDim.x)"
LANES = {
    "": (),
    "warp": ("_lane = uint64(cuda.threadIdx.x % _WARP)", "_lanes = uint64(_WARP)"),
    "block": ONE_BLOCK,
}
POINTS = {
    "": (_POINT, _STEP),
    "warp": (f"({_POINT}) // uint64(_WARP)", f"{_STEP} // uint64(_WARP)"),
    "block": ("uint64(cuda.blockIdx.x)", "uint64(cuda.gridDim.x)"),
}


def chained(loop: Loop, depth: int, whole: bool = False) -> list[Loop]:
    """Perfectly nested loops whose points may be distributed as one space: no inner one starts a
    reduction."""
    chain = [loop]
    while len(chain[-1].body) == 1:
        (inside,) = chain[-1].body
        at = depth + len(chain)
        if not isinstance(inside, Loop) or (inside.bounds and not whole):
            break
        if any(isinstance(t.array, Reduce) and t.first_reduced == at for t in inside.tasks):
            break
        chain.append(inside)
    return chain


@dataclass
class KernelText:
    """The source of one kernel, its name there, and the names of its arguments. While origins are tracked it
    also has the nodes that lines were written for."""

    name: str
    params: list[str]
    source: str
    origins: Mapping[str, Sequence[Node]] = field(default_factory=dict)


@dataclass
class Wide:
    """Rows that iterations of a loop read element by element, along an inner loop."""

    read: Read
    inside: Loop
    places: dict[Read, int] = field(default_factory=dict)


@dataclass
class Shared:
    """The reads of a loop's iterations along its axis alone, and along its axis and an inner one."""

    reads: list[Read]
    wide: list[Wide]


@dataclass
class Nest:
    """A nest over the points of `chain`. `full` are sums over the points, `sums` those inside a point.
    `inner` is the only inner loop, if it may be sliced. `tiles` maps inner loops that may read from shared
    memory to these reads."""

    number: int
    loop: Loop
    chain: list[Loop]
    full: list[Task]
    sums: list[Task]
    inner: Loop | None
    tiles: Mapping[Loop, Shared]
    neighbours: bool  # whether a team's threads read adjacent elements in inner loops
    names: dict[Element, str] = field(default_factory=dict)

    @cached_property
    def points(self) -> Shape:
        """The lengths of the distributed loops."""
        return tuple(loop.size for loop in self.chain)

    def sums_of(self, loop: Loop) -> list[Task]:
        """The sums of a point that an inner loop adds up."""
        return [t for t in self.sums if t in loop.tasks]

    @cached_property
    def inside(self) -> list[Shape]:
        """The lengths of the inner loops of a point, for each task."""
        depth = len(self.chain)
        return list({tuple(t.array.domain[k] for k in t.order[depth:]) for t in self.loop.tasks})


@dataclass
class Scatter:
    """Additions at computed indices: a kernel computes indices and values, which are then added in order."""

    number: int
    loop: Loop
    chain: list[Loop]
    task: Task
    names: dict[Element, str]

    @cached_property
    def points(self) -> Shape:
        """The lengths of the distributed loops."""
        return tuple(loop.size for loop in self.chain)


@dataclass
class Product:
    """A product of matrices by a library."""

    call: Call


@dataclass
class Copy:
    """A copy of an array or a row, or a fill with a constant; iterations number the rows."""

    source: str | int | float | bool
    row: list[str]
    target: str
    to_row: list[str]


@dataclass
class HostLoop:
    """A program loop run iteration by iteration. `iteration` is its counter on the device, which the last
    kernel of `body` increments; `test` is a scalar that `before` computes. The buffers `fresh` change their
    lengths in each iteration."""

    iteration: str
    length: Element | None
    backward: bool
    before: list[Step]
    test: Array | None
    body: list[Step]
    fresh: list[str]


Step = KernelText | Nest | Scatter | Product | Copy | HostLoop


def computes_lengths(rec: Recurrence) -> bool:
    """Whether arrays of an iteration, or of nested iterations, have computed lengths."""
    tasks = [t for s in (rec.before, rec.iteration) if s is not None for t in s.tasks]
    inside = (t for t in tasks if isinstance(t, Recurrence))
    return any(computed(a.shape) for t in tasks for a in t.arrays) or any(map(computes_lengths, inside))


def flat(steps: Iterable[Step]) -> Iterator[Step]:
    """Steps, including those of loops among them."""
    for step in steps:
        yield step
        if isinstance(step, HostLoop):
            yield from flat((*step.before, *step.body))


def is_product(array: Array) -> bool:
    """Whether an array is a product of matrices that a library computes."""
    return isinstance(array, Call) and array.op.startswith("matmul")
