"""What becomes of the values of a program: stored or fused in the kernel, saved or computed again later."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from adcompiler.explain.limits import MOST_READERS
from adcompiler.explain.page.kernels import Kernel
from adcompiler.explain.page.places import Places
from adcompiler.ir.nodes import Array, Element, Func, Input, Node, Read
from adcompiler.ir.types import is_float
from adcompiler.ir.walk import arrays_of, elements_of
from adcompiler.kernels.schedule.schedule_tree import Task, reads_of, tasks_of
from adcompiler.lazy_dataclass import dataclass
from adcompiler.runtime.programs.program import Derivative
from adcompiler.runtime.programs.splitting import SplitProgram
from adcompiler.runtime.reports.explain import again, recomputed


@dataclass(frozen=True)
class Fate:
    """What becomes of one value, and why: in the kernel of the function, and for propagate."""

    name: str
    places: tuple[int, ...]
    kernel: str
    why_kernel: str
    propagate: str
    why: str


class Values:
    """The values of one function: its variables, and the temporaries that forward saves."""

    def __init__(
        self,
        func: Func,
        kernel: Kernel | None,
        places: Places,
        program: SplitProgram | None,
        part: Derivative | None,
        part_places: Places,
    ) -> None:
        self.func, self.kernel, self.places = func, kernel, places
        self.program, self.part, self.part_places = program, part, part_places
        self.again: list[Element] = []
        self.labels: dict[str, str] = {}  # the names of saved values in forward, where others have theirs
        if program is not None and part is not None:
            self.again = list(recomputed(program, part))

    def fates(self) -> Iterator[Fate]:
        """One for each value that has a name, in the order of the program."""
        for name, nodes in self._named().items():
            places = self.places.of_all(nodes)
            propagate, why = self._propagate(name, nodes, places)
            yield Fate(name, places, *self._kernel(name, nodes), propagate, why)

    def also_again(self) -> str:
        """The operations without a name that propagate computes again."""
        if self.program is None or self.part is None:
            return ""
        return ", ".join(again(self.program, self.part))

    def _named(self) -> dict[str, list[Node]]:
        """The values by name: variables of the source, and temporaries of forward."""
        found: dict[str, list[Node]] = {}
        for array in arrays_of(self.func.roots):
            for node in (*elements_of(array.elements), array):
                name = self.func.names.get(node)
                if name is not None and not isinstance(node, Input | Read):
                    found.setdefault(name, []).append(node)
        if self.program is not None:
            forward, count = self.program.parts.forward, self.program.parts.count
            for label, array in zip(forward.result_names[count:], forward.results[count:], strict=True):
                name = forward.names.get(array, label)
                found.setdefault(name, []).append(array)
                self.labels[name] = label
        return found

    # -- the kernel ------------------------------------------------------------------------------------

    def _kernel(self, name: str, nodes: Sequence[Node]) -> tuple[str, str]:
        """Where a value is while the kernel of the function runs, and why."""
        if self.kernel is None:
            return "", ""
        made = self.kernel.made
        if any(node in self.func.results for node in nodes):
            return "a result", ""
        for k, item in enumerate(made.schedule.body):
            for task in tasks_of(item):
                if any(made.func.names.get(array) == name for array in task.arrays):
                    return self._held(task, k)
        return "fused", "computed where it is read"

    def _held(self, task: Task, nest: int) -> tuple[str, str]:
        """Where an array is that a nest computes."""
        assert self.kernel is not None
        if not task.array.rank:
            return "a number", ""
        if not task.stored:
            return "fused", "stays in a register: only this iteration of its loops reads it"
        items = self.kernel.made.schedule.body
        readers = [k for k, item in enumerate(items) for t in tasks_of(item) if _reads(t, task.array)]
        others = [k for k in readers if k != nest]
        why = "another loop nest reads it" if others else "another iteration reads it"
        return "stored", why if readers else ""

    # -- propagate -------------------------------------------------------------------------------------

    def _propagate(self, name: str, nodes: Sequence[Node], places: tuple[int, ...]) -> tuple[str, str]:
        """Whether a value is saved for propagate, and why."""
        program, part = self.program, self.part
        if program is None or part is None:
            return "", ""
        label = self.labels.get(name, name)
        if label in program.saved_names:
            return "saved", self._readers(label, part)
        here = [e for e in self.again if set(self.part_places.of(e)) & set(places)]
        if here:
            return "computed again", _why_again(here)
        return "not needed", "no derivative reads it"

    def _readers(self, name: str, part: Derivative) -> str:
        """The operations that read a saved value: their derivatives, or they themselves, again."""
        assert self.program is not None
        names = self.program.parts.value_names()
        given = [i for i, k in zip(part.func.inputs, part.reads, strict=False) if names[k] == name]
        found: dict[str, None] = {}
        for element in _reading(part.func, given):
            origin = self.part_places.table.origin(element)
            for place in self.part_places.of(element):
                text = f"`{self.places.text(place)}`"
                found[f"the derivative of {text}" if origin and origin.order else text] = None
        if not found:
            return "a derivative reads it"
        shown = [*found][:MOST_READERS]
        return f"read by {', '.join(shown)}{' and others' if len(found) > MOST_READERS else ''}"


def _reads(task: Task, array: Array) -> bool:
    """Whether a task reads an array."""
    return any(read.array is array for read in reads_of(task))


def _reading(func: Func, arrays: Iterable[Array]) -> Iterator[Element]:
    """The operations that read some arrays."""
    wanted = set(arrays)
    for array in arrays_of(func.roots):
        for element in elements_of(array.elements):
            if any(isinstance(a, Read) and a.array in wanted for a in element.args):
                yield element


def _why_again(elements: Sequence[Element]) -> str:
    """Why a value is computed again."""
    if not any(is_float(e.dtype) for e in elements):
        return "a condition or an integer: cheaper to compute than to read"
    if any(_is_over_pairs(e) for e in elements):
        return "it has an element for each pair of elements of smaller arrays: more to store than to compute"
    return "it follows from what is saved"


def _is_over_pairs(element: Element) -> bool:
    """Whether no array that an element reads has all of its axes."""
    reads = [e for e in elements_of((element,)) if isinstance(e, Read)]
    return len(element.axes) > 1 and all(e.axes < element.axes for e in reads)
