"""The assembly of a kernel, each line with the part of the loop IR that it comes from."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from adcompiler.targets.llvm.runtime.entry import KernelSource, translated
from adcompiler.targets.llvm.runtime.machine_code import assembled

_PLACE = re.compile(r"\s+\.loc\s+\d+\s+(\d+)")
_LABEL = re.compile(r"([\w.$]+):")
_END = re.compile(r"\.Lfunc_end\d+:")
_NOISE = re.compile(r"\s+\.|\.L(tmp|func_begin)\d+:|\s*$|\s*[#;@]|\s*//")


class Line(NamedTuple):
    """A line of assembly, with the mark of its expression or statement; 0 if it is of none."""

    text: str
    mark: int


def listing(source: KernelSource) -> list[Line]:
    """The functions of a kernel as LLVM compiles them for this machine's processor and contiguous arrays.

    Code that unpacks and packs Python's objects is left out where it stands alone. Raises UnsupportedError if
    numba compiles the kernel.
    """
    _only_known_places()
    text = assembled(translated(source._replace(located=True), contiguous=True).text)
    functions = {lines[0].text.rstrip(":"): lines for lines in _functions(text)}
    own = {name: lines for name, lines in functions.items() if any(line.mark for line in lines)}
    if "packed" in own:  # both have the kernel of a program without arrays
        own.pop("entry", None)
    return [line for lines in own.values() for line in lines]


@cache
def _only_known_places() -> None:
    """Tell LLVM to write where instructions of unknown places begin: else they seem to be at the place of the
    one before."""
    from llvmlite import binding as llvm

    llvm.set_option("adcompiler", "-use-unknown-locations=Enable")


def _functions(text: str) -> Iterator[list[Line]]:
    """The functions of an assembly text, without directives."""
    lines: list[Line] = []
    mark = 0
    for line in text.splitlines():
        if _END.match(line):
            yield lines
            lines = []
        elif found := _PLACE.match(line):
            mark = int(found[1])
        elif label := _LABEL.match(line):
            if not label[1].startswith("."):
                lines, mark = [Line(f"{label[1]}:", 0)], 0
            elif lines and not _NOISE.match(line):
                lines.append(Line(f"{label[1]}:", 0))
        elif lines and not _NOISE.match(line):
            lines.append(Line(_tidy(line), mark))


def _tidy(line: str) -> str:
    """An instruction without the comment behind it."""
    code = re.split(r"\s+(?:#|//|##)\s", line.strip(), maxsplit=1)[0]
    operation, _, operands = code.partition("\t")
    return f"    {operation:<12} {operands}".rstrip() if operands else f"    {operation}"
