"""Gathers of elements that are a few places apart, as loads of whole vectors and shuffles.

LLVM vectorises a loop that reads every second element of a row with gathers, which take the time of as many
loads as there are lanes:

    gather(x + 2 i, ..., x + 2 (i + 7))    →    shuffle(load(x + 2 i), load(x + 2 i + 7), 0, 2, 4, 6, 9, ...)

The last load ends with the element of the last lane, so no memory outside the elements is read. Addresses
are affine in the lane: their steps follow from the instructions that compute them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from adcompiler.targets.llvm.limits import MOST_MASKED_STRIDE, MOST_STRIDE
from adcompiler.targets.llvm.module_text import parts as module_parts

BYTES = {"double": 8, "float": 4, "i64": 8, "i32": 4, "i16": 2, "i8": 1, "ptr": 8}
_VALUE = r"(%[\w.$-]+|%\"[^\"]*\"|splat \(\w+ [^)]*\)|<[^>]*>|\w+)"
_DEFINED = re.compile(r"  (%\S+) = (.*)")
_GATHER = re.compile(
    r"  (\S+) = (?:tail )?call <(\d+) x (\w+)> @llvm\.masked\.gather\.[\w.]+\(<\d+ x ptr> align (\d+) "
    rf"{_VALUE}, <\d+ x i1> {_VALUE}, <\d+ x \w+> {_VALUE}\)"
)
_SUM = re.compile(rf"(add|sub|or disjoint) (?:n[us]w )*<\d+ x i64> {_VALUE}, {_VALUE}")
_SCALED = re.compile(rf"(mul|shl) (?:n[us]w )*<\d+ x i64> {_VALUE}, {_VALUE}")
_SAME = re.compile(r"shufflevector <\d+ x \w+> .*, <\d+ x i32> zeroinitializer")
_PLACE = re.compile(rf"getelementptr (?:inbounds |n[us]s?w )*(\w+), (ptr|<\d+ x ptr>) {_VALUE}, (.*)")
_INDEX = re.compile(rf"(?:i64|<\d+ x i64>) {_VALUE}")
_PHI = re.compile(r"phi <\d+ x \w+> (.*)")
_FROM = re.compile(rf"\[ {_VALUE}, ")
_SPLAT = re.compile(r"splat \(\w+ (.*)\)")
_FUNCTION = re.compile(r"define [^\n]*?@([\w.$]+)\(")
_LOAD = re.compile(r"call (<\d+ x \w+>) (@llvm\.masked\.load\.\w+\.p0)\(")
_SOURCE = re.compile(r", !dbg !\d+")
SUFFIXES = {"double": "f64", "float": "f32", "ptr": "p0"} | {f"i{n}": f"i{n}" for n in (8, 16, 32, 64)}
EVERY = "splat (i1 true)"


def strided(text: str) -> tuple[str, frozenset[str]]:
    """The text of a module without such gathers, and the functions in which it had them."""
    if "@llvm.masked.gather" not in text:
        return text, frozenset()
    parts, changed = list[str](), set[str]()
    for part in module_parts(text):
        made = _Function(part).text() if "@llvm.masked.gather" in part else part
        if made is not part and (found := _FUNCTION.match(part)):
            changed.add(found[1])
        parts.append(made)
    return "".join(parts) + "".join(_declarations(text, parts)), frozenset(changed)


def _declarations(text: str, parts: Sequence[str]) -> Iterator[str]:
    """The declarations of masked loads that are new."""
    vectors = {v: k for part in parts for v, k in _LOAD.findall(part)}
    for vector, name in sorted(vectors.items()):
        if f"{name}(" not in text:
            lanes = vector.split()[0]
            yield f"declare {vector} {name}(ptr, {lanes} x i1>, {vector})\n"


class _Function:
    """A function, with the distances between lanes of its vectors of integers and addresses."""

    def __init__(self, part: str) -> None:
        self.part, self.lines = part, part.split("\n")
        self.values = {found[1]: found[2] for line in self.lines if (found := _DEFINED.match(line))}
        self.steps: dict[str, int | None] = {}

    def text(self) -> str:
        """The function; the same text if it has no such gathers."""
        made = [new for line in self.lines for new in self.line(line)]
        return "\n".join(made) if len(made) > len(self.lines) else self.part

    def line(self, line: str) -> Sequence[str]:
        """The lines of an instruction."""
        found = _GATHER.match(line) if "@llvm.masked.gather" in line else None
        if found is None or found[3] not in BYTES:
            return (line,)
        result, lanes, kind, align, address, mask, other = found.groups()
        step = self.step(address)
        most = MOST_STRIDE if mask == EVERY else MOST_MASKED_STRIDE
        if step is None or step % BYTES[kind] or not 1 <= step // BYTES[kind] <= most:
            return (line,)
        place = "".join(_SOURCE.findall(line))
        made = loads(result, int(lanes), kind, align, address, step // BYTES[kind], mask, other)
        return [new + place for new in made]

    def step(self, value: str) -> int | None:
        """How much a vector of integers or addresses grows from lane to lane; None if it is not affine."""
        if value not in self.steps:
            self.steps[value] = None  # unless a loop assumes something else
            self.steps[value] = self._step(value)
        return self.steps[value]

    def _step(self, value: str) -> int | None:
        if value == "zeroinitializer" or _SPLAT.fullmatch(value):
            return 0
        if value.startswith("<"):
            numbers = [int(n) for n in re.findall(r"i64 (-?\d+)", value)]
            steps = {b - a for a, b in pairwise(numbers)}
            return steps.pop() if len(numbers) == value.count(",") + 1 and len(steps) == 1 else None
        text = self.values.get(value, "")
        if _SAME.match(text):
            return 0
        if found := _SUM.match(text):
            a, b = self.step(found[2]), self.step(found[3])
            return None if a is None or b is None else a - b if found[1] == "sub" else a + b
        if found := _SCALED.match(text):
            return self._scaled(*found.groups())
        if found := _PLACE.match(text):
            return self._place(*found.groups())
        if found := _PHI.match(text):
            return self._phi(value, _FROM.findall(found[1]))
        return None

    def _scaled(self, op: str, x: str, y: str) -> int | None:
        """The step of a product by a constant."""
        constant, own = _SPLAT.fullmatch(y), self.step(x)
        if own is None or constant is None or not constant[1].lstrip("-").isdigit():
            return None
        return own * int(constant[1]) if op == "mul" else own << int(constant[1])

    def _place(self, unit: str, kind: str, base: str, indices: str) -> int | None:
        """The step of an address."""
        found, index = 0 if kind == "ptr" else self.step(base), _INDEX.fullmatch(indices.split(", !")[0])
        if found is None or index is None or unit not in BYTES:
            return None
        own = self.step(index[1]) if "<" in indices else 0
        return None if own is None else found + own * BYTES[unit]

    def _phi(self, value: str, sources: Sequence[str]) -> int | None:
        """The step of a variable of a loop: that which it begins with, if all iterations keep it."""
        known: Mapping[str, int | None] = dict(self.steps)
        for source in sources:
            if (found := self.step(source)) is not None:
                self.steps = {**known, value: found}
                if all(self.step(other) == found for other in sources):
                    return found
                self.steps = dict(known)
        return None


def loads(
    result: str, lanes: int, kind: str, align: str, address: str, step: int, mask: str, other: str
) -> Sequence[str]:
    """The instructions instead of a gather: `step` loads of vectors, and shuffles of two at a time."""
    vector, indices = f"<{lanes} x {kind}>", f"<{lanes} x i32>"
    lines = [f"  {_named(result, 'first')} = extractelement <{lanes} x ptr> {address}, i64 0"]
    starts = [min(lanes * k, step * (lanes - 1) + 1 - lanes) for k in range(step)]
    for k, start in enumerate(starts):
        at, part = _named(result, f"at{k}"), _named(result, f"part{k}")
        lines.append(f"  {at} = getelementptr {kind}, ptr {_named(result, 'first')}, i64 {start}")
        if mask == EVERY:
            lines.append(f"  {part} = load {vector}, ptr {at}, align {align}")
            continue
        own = [q // step if q % step == 0 else lanes for q in range(start, start + lanes)]
        inside, both = _named(result, f"inside{k}"), f"<{lanes} x i1>"
        lines += [
            f"  {inside} = shufflevector {both} {mask}, {both} zeroinitializer, {indices} {_numbers(own)}",
            f"  {part} = call {vector} @llvm.masked.load.v{lanes}{SUFFIXES[kind]}.p0(ptr align {align} {at}, "
            f"{both} {inside}, {vector} zeroinitializer)",
        ]
    found = _named(result, "part0")
    for k in range(1, step):
        made = _named(result, f"found{k}")
        own = [j if step * j < starts[k] else lanes + step * j - starts[k] for j in range(lanes)]
        if k == 1:
            own = [step * j if step * j < starts[1] else n for j, n in enumerate(own)]
        own = [n if n < 2 * lanes else 0 for n in own]  # in a part that follows
        part = _named(result, f"part{k}")
        lines.append(f"  {made} = shufflevector {vector} {found}, {vector} {part}, {indices} {_numbers(own)}")
        found = made
    if mask == EVERY or other == "poison":
        mask = EVERY
    lines.append(f"  {result} = select <{lanes} x i1> {mask}, {vector} {found}, {vector} {other}")
    return lines


def _named(result: str, part: str) -> str:
    """A new name for a part of a value."""
    return f'%"strided.{result[1:].strip(chr(34))}.{part}"'


def _numbers(lanes: Sequence[int]) -> str:
    return f"<{', '.join(f'i32 {n}' for n in lanes)}>"
