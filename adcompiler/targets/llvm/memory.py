"""Memory of one function: arrays on the stack or the heap, and copies of arrays for lanes."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from adcompiler.loopir.vector_statements import LANE
from adcompiler.targets.llvm.tables import BYTES
from adcompiler.targets.llvm.values import ArrayValue, Needs, UnsupportedError, Value, literal
from adcompiler.targets.llvm.variables import Variables

SMALL = 64  # elements of an array on the stack


class Memory(Variables):
    """Variables of a function that makes arrays; vectors have `lanes`."""

    def __init__(self, needs: Needs, lanes: int) -> None:
        super().__init__(needs)
        self.lanes = lanes
        self.widened: set[str] = set()  # rows with lanes side by side

    def allocate(self, name: str, lengths: Sequence[Value], kind: str) -> None:
        """Memory for an array: the stack if it is small, so that LLVM may keep it in registers."""
        known = all(n.text.isdigit() for n in lengths)
        count = prod(int(n.text) for n in lengths) if known else SMALL + 1
        if count > SMALL:
            self.from_heap(name, lengths, kind)
        elif name not in self.arrays:
            self.on_stack(name, lengths, kind)
            if name in self.widened and self.lanes > 1:
                last = literal(int(lengths[-1].text) * self.lanes)
                self.on_stack(name + LANE, [*lengths[:-1], last], kind)

    def on_stack(self, name: str, lengths: Sequence[Value], kind: str) -> None:
        """A place for a small array."""
        count = prod(int(n.text) for n in lengths)
        self.arrays[name] = ArrayValue(Value(f"%own_{name}", "ptr"), kind, tuple(lengths), None)
        self.stack.append(f"%own_{name} = alloca [{count} x {self.arrays[name].stored}], align 64")

    def from_heap(self, name: str, lengths: Sequence[Value], kind: str) -> None:
        """Memory for an array whose lengths the kernel computes; what the name had before is given back.

        Where there is none, the function gives up.
        """
        if self.heap.setdefault(name, (kind, len(lengths))) != (kind, len(lengths)):
            raise UnsupportedError
        place = f"%heap_{name}"
        slots = [f"{place}_{d}" for d in range(len(lengths))]
        if place[1:] not in self.held:
            self.held.append(place[1:])
            self.stack += [f"{slot} = alloca i64" for slot in slots]
        size = literal(BYTES[kind])
        for slot, n in zip(slots, lengths, strict=True):
            self.lines.append(f"store {n}, ptr {slot}")
            size = self.product(size, n)
        self.free(name)
        data = self.call("PyMem_RawMalloc", "ptr", [size])
        self.lines.append(f"store {data}, ptr {place}")
        with self.when(self.emit(f"icmp eq {data}, null", "i1")):
            self.gives_up = True
            self.lines.append("br label %given_up")
            self.begin(f"{self.label()}_never")

    def free(self, name: str) -> None:
        """Give the memory of an array back, if it has any."""
        self.call("PyMem_RawFree", "void", [self.emit(f"load ptr, ptr %heap_{name}", "ptr")])

    def copy_of(self, name: str, axes: Sequence[int]) -> Value:
        """Memory for what each lane has of some axes of an array; whether there is some."""
        array = self.known(name)
        *others, last = (array.shape[axis] for axis in axes)
        shape = (*others, self.integers("mul", last, literal(self.width)))
        size = literal(BYTES[array.type] * self.width)
        for n in (*others, last):
            size = self.product(size, n)
        data = self.call("PyMem_RawMalloc", "ptr", [size])
        self.held += [] if (held := f"lanes_{name}") in self.held else [held]
        self.lines.append(f"store {data}, ptr %{held}")
        self.arrays[name + LANE] = ArrayValue(data, array.type, shape, None)
        return self.emit(f"icmp ne {data}, null", "i1")
