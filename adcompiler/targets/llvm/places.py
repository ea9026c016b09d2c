"""The places of instructions: which part of the loop IR each comes from, as LLVM's debug locations.

They are written only into a module that is listed (`runtime/assembly.py`). The line of a location is the mark
of an expression or a statement, which LLVM's passes carry to the assembly.
"""

from __future__ import annotations

from collections.abc import Sequence

FILE, UNIT, TYPE = "kernel", "distinct !DICompileUnit", "!DISubroutineType"


class Places:
    """The debug information of one module: a subprogram for each function whose statements have marks."""

    def __init__(self) -> None:
        self.file = self.unit = self.type = -1

    def head(self, hints: list[str]) -> list[str]:
        """The lines of the module that make LLVM keep the locations; their nodes are added to `hints`."""
        if self.unit < 0:
            return []
        version = _add(hints, '!{i32 2, !"Debug Info Version", i32 3}')
        return [f"!llvm.dbg.cu = !{{!{self.unit}}}", f"!llvm.module.flags = !{{!{version}}}"]

    def subprogram(self, name: str, hints: list[str]) -> int:
        """The number of the node of a new function."""
        if self.unit < 0:
            self.file = _add(hints, f'!DIFile(filename: "{FILE}", directory: "")')
            kind = "language: DW_LANG_C, emissionKind: LineTablesOnly"
            self.unit = _add(hints, f"{UNIT}(file: !{self.file}, {kind})")
            self.type = _add(hints, f"{TYPE}(types: !{_add(hints, '!{}')})")
        parts = (
            f'name: "{name}", scope: !{self.file}, file: !{self.file}, type: !{self.type}',
            f"spFlags: DISPFlagDefinition, unit: !{self.unit}",
        )
        return _add(hints, f"distinct !DISubprogram({', '.join(parts)})")


def _add(hints: list[str], node: str) -> int:
    hints.append(f"!{len(hints)} = {node}")
    return len(hints) - 1


def located(lines: Sequence[str], mark: int, scope: int) -> list[str]:
    """Instructions of a function with the place of a mark, where they have none; 0 is an unknown place."""
    place = f", !dbg !DILocation(line: {mark}, column: 0, scope: !{scope})"
    return [line if not line or line.endswith(":") or "!dbg" in line else line + place for line in lines]
