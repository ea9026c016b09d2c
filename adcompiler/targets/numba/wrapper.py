"""The function around a kernel in Python for numba: it checks lengths, allocates buffers, selects results."""

from __future__ import annotations

from collections.abc import Sequence

from adcompiler.frontend.values.sizes import Constraint
from adcompiler.ir.nodes import Size, const
from adcompiler.ir.types import NUMPY
from adcompiler.kernels.emit.block_partition import Partition
from adcompiler.kernels.emit.call_plan import CallPlan, Kind, Result
from adcompiler.kernels.emit.kernel import Kernel
from adcompiler.kernels.emit.writer import Writer
from adcompiler.loopir.printer import ATOM
from adcompiler.loopir.printer import lines as lines_of

ONE = const(1, "i64")


def wrapper(
    kernel: Kernel,
    plan: CallPlan,
    partitions: Sequence[Partition],
    compared: Sequence[Constraint] = (),
    contiguous: bool = False,
) -> str:
    """`call(*inputs)`, which returns a tuple of the results of `run`.

    `compared` is what has to hold between the lengths of a call. With `contiguous`, `run` takes only such
    arrays.
    """
    writer = Writer(kernel.arrays, plan.sizes, (), {})
    known: set[int] = set()
    for array, name in zip(plan.func.inputs, plan.inputs, strict=True):
        for axis, size in enumerate(array.shape):
            if isinstance(size, Size) and size.number not in known:
                known.add(size.number)
                writer.line(f"{plan.sizes[size.number]} = {name}.shape[{axis}]")
            else:
                writer.line(f"if {name}.shape[{axis}] != {writer.text(size, ATOM)}:")
                writer.line(f'    raise ValueError("axis {axis} of {name} has a length that does not fit")')
        if contiguous and array.rank:
            writer.line(f"{name} = np.ascontiguousarray({name})")
    for number, position in plan.func.counts:
        writer.line(f"{plan.sizes[number]} = max({plan.inputs[position]}, 0)")
    for one in compared:
        reach, left, right = (writer.text(n or ONE, ATOM) for n in (one.reach, one.left, one.right))
        writer.line(f"if {reach} > 0 and {left} {'<' if one.at_least else '!='} {right}:")
        writer.line("    raise ValueError('lengths do not fit')")
    for k, partition in enumerate(partitions):
        partition.assign(writer, k)
    for buffer in plan.buffers:
        first = [] if buffer.nest is None else [f"blocks{buffer.nest}"]
        shape = "".join(f"{n}, " for n in (*first, *(writer.text(n, ATOM) for n in buffer.shape)))
        writer.line(f"{buffer.name} = np.empty(({shape}), np.{NUMPY[buffer.dtype]})")
    writer.line(f"scalars = run({', '.join(plan.params)})")
    for check, number in zip(plan.func.checks, plan.checks, strict=True):
        writer.line(f"if scalars[{number}] == 0:")
        writer.line(f"    raise IndexError({check.cause!r})")
    writer.line(f"return ({''.join(f'{_result(plan, r)}, ' for r in plan.results)})")
    lines = ("    " + line for line in lines_of(writer.scopes[0]))
    return "\n".join([f"@jit\ndef call({', '.join(plan.inputs)}):", *lines, ""])


def _result(plan: CallPlan, result: Result) -> str:
    """The text of a result."""
    match result.kind:
        case Kind.BUFFER:
            return plan.buffers[result.number].name
        case Kind.INPUT:
            return plan.inputs[result.number]
    return f"scalars[{result.number}]"
