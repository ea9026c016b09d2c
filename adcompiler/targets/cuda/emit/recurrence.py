"""Program loops on a device: one block runs the iterations, and its threads share the work of each."""

from __future__ import annotations

from adcompiler.ir.nodes import Array, Const, Shape
from adcompiler.kernels.emit.recurrence import Emitter, RecurrenceWriter
from adcompiler.kernels.emit.writer import Row
from adcompiler.kernels.schedule.carried_updates import CarriedStore
from adcompiler.kernels.schedule.schedule_tree import Recurrence
from adcompiler.targets.cuda.emit.device_writer import DeviceWriter


class DeviceRecurrence(RecurrenceWriter):
    """A program loop with barriers around work that threads share."""

    writer: DeviceWriter
    parts = False

    def __init__(self, emitter: Emitter, writer: DeviceWriter, rec: Recurrence) -> None:
        super().__init__(emitter, writer, rec)
        for place, array in zip(rec.consts, rec.loop.consts, strict=True):
            if array in writer.slots:  # a scalar computed by this or another kernel
                writer.slots[place] = writer.slots[array]
                writer.local |= {place} if array in writer.local else set()

    def copy(self, source: str | Const, target: Array, shape: Shape, row: Row = (), to_row: Row = ()) -> None:
        if shape:
            self.writer.sync()
        super().copy(source, target, shape, row, to_row)
        if shape:
            self.writer.sync()

    def carry(self) -> None:
        self.writer.sync()  # scalars are read from arrays before these change
        super().carry()
        self.writer.sync()

    def store(self, final: Array, store: CarriedStore) -> None:
        self.writer.sync()
        super().store(final, store)
        self.writer.sync()
