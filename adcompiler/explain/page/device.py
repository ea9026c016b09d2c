"""CUDA kernels as lines with their places."""

from __future__ import annotations

import re
from functools import partial

from adcompiler.explain.page.places import Line, Mark, Places
from adcompiler.explain.page.programs import is_parameter
from adcompiler.ir.nodes import Array, Func, Node, Read
from adcompiler.ir.origins import Origins, tracking
from adcompiler.passes.pipeline import OPTIMISE, run
from adcompiler.targets.cuda.backend import emitted
from adcompiler.targets.cuda.emit.steps import KernelText

_SETS = re.compile(r"(\w+)(?:\[.*?\])? = ")
_COPY = re.compile(r"\b_(\w+)_\d+\b")  # a name in one of several copies of a line


class DeviceKernels:
    """The CUDA kernels of a program. A line has the places of all operations that it computes."""

    def __init__(self, func: Func, table: Origins) -> None:
        self.table = table
        with tracking(table):
            emitter, self.texts = emitted(run(OPTIMISE, func))
        self.func = emitter.func
        self.arrays: dict[str, Array] = {name: task.array for task, name in emitter.registers.items()}
        self.arrays |= {name: array for array, name in emitter.labels.items()}

    def lines(self, places: Places) -> list[Line]:
        """The kernels one after another."""
        places = places.by(self.table)
        found: list[Line] = []
        for text in self.texts:
            found += [Line(""), Line("")] if found else []
            found += [self._line(line, text, places) for line in text.source.rstrip("\n").split("\n")]
        return found

    def _line(self, line: str, text: KernelText, places: Places) -> Line:
        find = partial(places.found, places.inputs_of(self.func))
        where = find(*self._nodes(line.strip(), text))
        start = len(line) - len(line.lstrip())
        marks = [Mark(start, len(line), where.places, (), where.derivative)] if where.places else []
        return Line(line, tuple(marks))

    def _nodes(self, line: str, text: KernelText) -> list[Node]:
        """What a line was written for: its operations, and the array or sum that it sets."""
        if line.startswith("#"):
            return []
        known = text.origins.get(line) or text.origins.get(_COPY.sub(r"\1", line), ())
        found = [node for node in known if not isinstance(node, Read) or is_parameter(node)]
        is_set = _SETS.match(line)
        array = self.arrays.get(_COPY.sub(r"\1", is_set[1])) if is_set else None
        return found if array is None else [array, *found]
