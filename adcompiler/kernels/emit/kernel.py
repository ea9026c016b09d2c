"""The functions of a kernel in loop IR, and the data needed to call it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import field, replace

from adcompiler.ir.nodes import Array, Func
from adcompiler.kernels.emit.call_plan import CallPlan
from adcompiler.kernels.emit.names import NUMBA, SPECIAL
from adcompiler.kernels.schedule.schedule_tree import Loop, Recurrence
from adcompiler.lazy import cached_property
from adcompiler.lazy_dataclass import dataclass
from adcompiler.loopir.intrinsics import INTRINSICS
from adcompiler.loopir.nodes import BLOCK, For, Function, Stmt, Var, literal
from adcompiler.loopir.printer import source
from adcompiler.loopir.rewrite import bare
from adcompiler.loopir.transforms.pipeline import transformed

OPTIONS = 'error_model="numpy", fastmath={"contract"}, nogil=True'


def with_header(comment: str, text: str) -> str:
    """A module of generated functions: `comment`, imports, and the `jit` decorator."""
    words = set(re.findall(r"\w+", text))
    lines = [f"import {name}" for name in ("math",) if name in words]
    lines += ["import numpy as np"] if "np" in words else []
    lines.append(f"from numba import {', '.join(n for n in NUMBA if n in words | {'njit'})}")
    if used := [n for n in INTRINSICS if n in words]:
        lines.append(f"from adcompiler.targets.numba.intrinsics import {', '.join(used)}")
    if used := [n for n in SPECIAL if f"{n}." in text]:
        lines.append(f"from adcompiler.targets.numba.special import {', '.join(used)}")
    if called := sorted(word for word in words if word.startswith("library_")):
        lines.append(f"from adcompiler.targets.numba.special import {', '.join(called)}")
    lines.append("")
    lines += [f"jit = njit({OPTIONS})"] if "@jit" in text else []
    return comment + "\n".join(lines) + "\n\n" + text


@dataclass
class Kernel:
    """Functions, and how to call the last one, which is `run`."""

    comment: str
    functions: Sequence[Function]
    func: Func
    plan: CallPlan
    nests: list[Loop]
    sequential: set[int]
    arrays: dict[Array, str]
    rows: frozenset[str]  # buffers that each iteration of a nest reuses
    in_iterations: AbstractSet[int] = frozenset()  # nests inside iterations of program loops
    whole: Sequence[Loop] = ()  # loops in iterations that are not nests, but could be
    scans: Mapping[int, Recurrence] = field(default_factory=dict)  # nests that run program loops

    @cached_property
    def bare(self) -> tuple[Function, ...]:
        """The functions without comments."""
        return tuple(map(bare, self.functions))

    @cached_property
    def transformed(self) -> Mapping[str, Function]:
        """The functions as our own compiler translates them, by name."""
        found = transformed(replace(f, rows=self.rows.intersection(f.params)) for f in self.functions)
        return {f.name: f for f in found}

    @property
    def wide(self) -> frozenset[str]:
        """The rows with space for all lanes."""
        return self.rows.intersection(name for f in self.transformed.values() for name in f.wide)

    @cached_property
    def text(self) -> str:
        """The functions, as numba compiles them."""
        return "\n\n".join(f"@jit\n{source(f)}" for f in self.functions)

    @property
    def source(self) -> str:
        """The module."""
        return with_header(self.comment, self.text)


def over_blocks(nest: int, statement: Stmt, note: str) -> For:
    """A loop over the blocks of a nest."""
    return For(BLOCK.name, literal(0), Var(f"blocks{nest}"), [statement], kind="blocks", note=note)
