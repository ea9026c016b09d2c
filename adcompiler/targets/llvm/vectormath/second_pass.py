"""The second of two passes through LLVM: operations on whole vectors become inlined functions.

In the first pass LLVM vectorises loops with the processor's divisions and roots, and calls of vector
functions. In its output these are replaced by our own functions (`newton.py`, `elementary.py`), which are
faster; functions with names of ours are defined. Gathers of elements that are a few places apart become loads
(`strided_loads.py`).

A number that is alone, in a loop without vectors, gets what a vector's lane would.

In a function with very many operations, ours are called instead of inlined, and divisions and roots use the
processor's instructions, which give the same bits: LLVM's register allocation takes quadratic time.
"""

from __future__ import annotations

import re
from contextlib import suppress
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from adcompiler.loopir.nodes import UnsupportedError
from adcompiler.targets.llvm.libmvec import WIDEST
from adcompiler.targets.llvm.limits import MOST_INLINED
from adcompiler.targets.llvm.module_text import parts as module_parts
from adcompiler.targets.llvm.passes import closed_by_errors, parsed, run
from adcompiler.targets.llvm.strided_loads import strided
from adcompiler.targets.llvm.vectormath.elementary import ELEMENTARY
from adcompiler.targets.llvm.vectormath.inlined import KINDS, NUMBERS, RARE, Kind
from adcompiler.targets.llvm.vectormath.newton import NEWTON

_OPERAND = r"""(%[\w.$-]+|%"[^"]*"|splat \([^)]*\)|<[^>]*>|\w+)"""
_VECTOR = f"({'|'.join(map(re.escape, KINDS))})"
_QUOTIENT = re.compile(rf"  (\S+) = fdiv [a-z ]*{_VECTOR} {_OPERAND}, {_OPERAND}")
_ROOT = re.compile(rf"  (\S+) = (?:tail )?call [a-z ]*{_VECTOR} @llvm\.sqrt\.\w+\({_VECTOR} {_OPERAND}\)")
_ALONE = re.compile(
    rf"  (\S+) = (?:tail )?call [a-z ]*(double|float) @adc_({'|'.join(NEWTON)})f?\(\w+ {_OPERAND}\)"
)
_DECLARED = re.compile(rf"declare [a-z ]*{_VECTOR} @adc_(\w+)_v\d+f\d+\(")
_CALL = re.compile(rf"  (\S+) = [a-z ]*call [a-z ]*{_VECTOR} @(_ZGVeN\w+)\((.*)\)[^)]*$")
_ARGUMENT = re.compile(rf"{_VECTOR} (?:[a-z]+ )*{_OPERAND}(?:, |$)")
_REPLACED = re.compile(rf" fdiv [a-z ]*{_VECTOR} |@llvm\.sqrt\.v|@adc_\w+_v|@_ZGVeN")
_NAMED = (" fdiv ", "@llvm.sqrt.", "@adc_", "@_ZGV")  # what is looked at
_DEFINED = re.compile(r"define [^\n]*?@([\w.$]+)\(")
_APART = re.compile(r"(@adc_\w+_v\d+f\d+)\(")
_PLACE = re.compile(r", !dbg !\d+")
_ONE = re.compile(r"splat \(\w+ 1\.0+e\+00\)|<(?:\w+ 1\.0+e\+00(?:, )?)+>")
FUNCTIONS = {**NEWTON, **ELEMENTARY}
# The functions of libmvec for these vectors, and what they are here.
SYMBOLS = {WIDEST.symbol(name, k.element): (name, k) for name in ELEMENTARY for k in KINDS.values()}


@cache
def version() -> str:
    """What is another for other functions: machine code that is kept depends on them."""
    names = (
        "second_pass",
        "inlined",
        "newton",
        "elementary",
        "approximation",
        "../strided_loads",
        "../module_text",
    )
    files = (*(f"{name}.py" for name in names), "coefficients.json")
    return sha256(b"".join((Path(__file__).parent / f).read_bytes() for f in files)).hexdigest()


class Replaced:
    """The text of a module in which functions of vectors are those of our own."""

    def __init__(self, text: str) -> None:
        self.used: dict[tuple[str, Kind, bool], None] = {}  # whether they are inlined
        self.inlines = True
        self.lines: list[str] = []
        self.changed: set[str] = set()  # functions that LLVM shall look at again
        for part in module_parts(text):
            lines = part.split("\n")
            if not any(one in part for one in _NAMED):
                self.lines += lines
                continue
            replaced = (line for line in lines if any(one in line for one in _NAMED))
            self.inlines = sum(_REPLACED.search(line) is not None for line in replaced) <= MOST_INLINED
            self.lines += [self.line(line) for line in lines]
            if _REPLACED.search(part) and (found := _DEFINED.match(part)):
                self.changed.add(found[1])

    def line(self, line: str) -> str:
        """One line, at the same place in the source."""
        new = self._line(line)
        if new is line or "!dbg" not in line:
            return new
        return new + "".join(_PLACE.findall(line))

    def _line(self, line: str) -> str:
        if self.inlines and " fdiv " in line and (found := _QUOTIENT.match(line)):
            result, vector, a, x = found.groups()
            what, args = ("reciprocal", ()) if _ONE.fullmatch(a) else ("quotient", (a,))
            return self.call(result, what, KINDS[vector], *args, x)
        if self.inlines and "@llvm.sqrt." in line and (found := _ROOT.match(line)):
            result, vector, _, x = found.groups()
            return self.call(result, "root", KINDS[vector], x)
        if "@adc_" in line:
            if self.inlines and (found := _ALONE.match(line)):
                result, number, name, x = found.groups()
                return self.call(result, name, NUMBERS[number], x)
            if found := _DECLARED.match(line):
                vector, name = found.groups()
                self.used |= dict.fromkeys((name, KINDS[vector], inlines) for inlines in (True, False))
                return ""
            return line if self.inlines else _APART.sub(r"\1_apart(", line)
        if " @_ZGVeN" in line and (found := _CALL.match(line)) and found[3] in SYMBOLS:
            result, _, symbol, given = found.groups()
            return self.call(result, *SYMBOLS[symbol], *(a[1] for a in _ARGUMENT.findall(given)))
        if " call " in line and not SYMBOLS.keys().isdisjoint(re.findall(r"@(\w+)\(", line)):
            raise UnsupportedError("a call of libmvec that cannot be inlined")
        return line

    def call(self, result: str, name: str, kind: Kind, *args: str) -> str:
        """A call of one of our functions."""
        self.used[name, kind, self.inlines] = None
        given = ", ".join(f"{kind.vector} {a}" for a in args)
        return f"  {result} = call {kind.vector} @{_name(name, kind, self.inlines)}({given})"

    @property
    def text(self) -> str:
        """The module."""
        text = "\n".join(self.lines)
        functions = {used: FUNCTIONS[used[0]](used[1]) for used in self.used}
        declared = dict.fromkeys(d for f in functions.values() for d in f.declared)
        new = [d for d in declared if f"{d[: d.index('(')].split()[-1]}(" not in text]
        numbers = (int(n) for n in re.findall(r"^!(\d+) = ", text, re.MULTILINE))
        rare = f"!{max(numbers, default=0) + 1}"
        own = (f.definition(_name(*used), inlines=used[2]) for used, f in functions.items())
        parts = [text, *new, *(definition.replace(RARE, rare) for definition in own)]
        return "\n".join([*parts, f'{rare} = !{{!"branch_weights", i32 2000, i32 1}}', ""])


def _name(name: str, kind: Kind, inlines: bool) -> str:
    """What a function of ours is called in a module."""
    return f"adc_{name}_{kind.name}{'' if inlines else '_apart'}"


@cache
def _is_possible() -> bool:
    """Whether the processor has what the functions call."""
    from llvmlite import binding as llvm

    with suppress(RuntimeError):  # LLVM does not know the processor
        return bool(llvm.get_host_cpu_features().get("avx512f"))
    return False


def inlined(module: Any, builder: Any) -> Any:
    """A module that LLVM has optimised with such functions, where it has operations that they replace; then
    the one that is given is closed."""
    from llvmlite import binding as llvm

    if not _is_possible():
        return module
    text, loaded = strided(str(module))
    replaced = Replaced(text)
    if not replaced.used and not loaded:
        return module
    found = parsed(replaced.text)
    with closed_by_errors(found):
        inline = llvm.create_new_module_pass_manager()
        inline.add_always_inliner_pass()
        run(inline, [found], builder)
        again = llvm.create_new_function_pass_manager()
        again.add_new_gvn_pass()
        again.add_instruction_combine_pass()
        again.add_simplify_cfg_pass()
        again.add_dead_code_elimination_pass()
        changed = replaced.changed.union(loaded, (_name(*used) for used in replaced.used))
        run(again, [f for f in found.functions if f.name in changed and not f.is_declaration], builder)
        rest = llvm.create_new_module_pass_manager()
        rest.add_global_dead_code_eliminate_pass()
        run(rest, [found], builder)
    module.close()
    return found
