"""The sources of a program's kernels, before lengths select among them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from adcompiler.targets.cuda.emit.device_emitter import DeviceEmitter
from adcompiler.targets.cuda.emit.steps import LANES, KernelText, Nest, Scatter, flat
from adcompiler.targets.cuda.emit.tiles import is_wide


def texts(emitter: DeviceEmitter, every: bool = False) -> Iterator[KernelText]:
    """The sources of the kernels."""
    for step in flat(emitter.steps):
        match step:
            case KernelText():
                yield step
            case Nest():
                inside = step.inner is not None or any(
                    len(t.order) > len(step.chain) for t in step.loop.tasks
                )
                usual = "warp" if inside and step.neighbours else ""
                for team in LANES if every and inside else (usual,):
                    cuts = (False, True) if every and step.inner is not None else (False,)
                    ways = [True, False] if step.tiles and not team else [False]
                    ways = ways[::-1] if is_wide(step.tiles) else ways  # these need dynamic memory
                    for sliced, tiled in product(cuts, ways if every else ways[:1]):
                        yield emitter.nest_text(step, team, sliced, tiled)
            case Scatter():
                yield emitter.scatter_text(step)
            case _:
                pass  # run by a library or the host
