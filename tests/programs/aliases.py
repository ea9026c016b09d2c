"""Random programs in which names share arrays: other names, parts, rows, tuples, functions that store.

What is returned is made of names that may have been left behind by a store. So a program either is refused
for that, or gives what NumPy gives.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hypothesis import strategies as st

from programs import Draw, Program

HELPERS = """
def scaled(v):
    v *= 0.5
    return v

def shifted(v, w):
    v[0] = w[-1]
    return w

def squares(v):
    return sum(v * v)
"""
VIEWS = ("{}", "{}[:]", "{}[::-1]", "{}.reshape(n)", "np.asarray({})", "flip({})", "roll({}, 0)", "{}.T")
COPIES = ("{}.copy()", "{} + 0.1", "+{}", "np.array({})", "{}.flatten()", "where({} > 0.3, {}, 0.2)")
LONGEST = 9


@dataclass
class Writer:
    """Writes the body of a def of vectors as long as x; `indices` are those of loops around."""

    draw: Draw
    lines: list[str] = field(default_factory=list)
    vectors: list[str] = field(default_factory=lambda: ["x", "y", "z"])
    indices: list[str] = field(default_factory=list)
    made: int = 0

    def pick(self, options: Any) -> Any:
        return self.draw(st.sampled_from(list(options)))

    def write(self, depth: int, text: str) -> None:
        self.lines.append("    " * (depth + 1) + text)

    def fresh(self, letter: str) -> str:
        self.made += 1
        return f"{letter}{self.made}"

    def index(self) -> str:
        return str(self.pick(["0", "-1", "1", *(f"{i} % n" for i in self.indices)]))

    def vector(self) -> str:
        name, other = self.pick(self.vectors), self.pick(self.vectors)
        kinds = [*VIEWS, *COPIES, "scaled({})", "shifted({}, " + other + ")", "m[{}]".format(self.pick("01"))]
        kinds += ["({} if x[0] > 0.5 else " + other + ")", "({}, " + other + ")[1]"]
        return str(self.pick(kinds).replace("{}", name))

    def scalar(self) -> str:
        name = self.pick(self.vectors)
        return str(
            self.pick([f"0.5 * {name}[{self.index()}]", f"sin(squares({name}))", "0.3", "0.1 * m[1, 0]"])
        )

    def statement(self, depth: int) -> None:
        kinds = [self.bind, self.bind, self.store, self.store, self.update, self.swap]
        if depth < 2 and len(self.lines) < LONGEST:
            kinds += [self.loop, self.walk, self.branch, self.several]
        self.pick(kinds)(depth)

    def block(self, depth: int) -> None:
        for _ in range(1 if len(self.lines) > LONGEST else self.draw(st.integers(1, 3))):
            self.statement(depth)

    def bind(self, depth: int) -> None:
        self.write(depth, f"{self.pick(self.vectors)} = {self.vector()}")

    def store(self, depth: int) -> None:
        target = self.pick([*self.vectors, "m[0]", "m[1]"])
        target = target.replace("]", "") + ", 0]" if target.startswith("m") else f"{target}[{self.index()}]"
        self.write(depth, f"{target} {self.pick(['=', '+='])} {self.scalar()}")

    def update(self, depth: int) -> None:
        place = self.pick(["", "", "[1:]", "[:-1]"])
        self.write(depth, f"{self.pick(self.vectors)}{place} *= {self.scalar()}")

    def swap(self, depth: int) -> None:
        one, other = self.pick(self.vectors), self.pick(self.vectors)
        self.write(depth, f"{one}, {other} = {other}, {one}" if one != other else f"{one} = m[0]")

    def loop(self, depth: int) -> None:
        i = self.fresh("i")
        self.write(depth, f"for {i} in range({self.pick(['n', 'n', '2'])}):")
        self.indices.append(i)
        self.block(depth + 1)
        self.indices.pop()

    def walk(self, depth: int) -> None:
        """A loop over an array, or rows, in which it may store."""
        v, name, other = self.fresh("v"), self.pick(self.vectors), self.pick(self.vectors)
        over = self.pick([name, f"{name}[1:]", f"enumerate({name})", f"zip({name}, {other}[::-1])", "m"])
        if over == "m":
            self.write(depth, f"for {v} in m:")
            self.write(depth + 1, self.pick([f"{v} *= 0.5", f"{v}[0] = {self.scalar()}", f"s += {v}[-1]"]))
            self.vectors.append(v)
        else:
            target = v if over[:3] not in ("enu", "zip") else f"{v}, {self.fresh('v')}"
            self.write(depth, f"for {target} in {over}:")
            self.write(depth + 1, f"s += 0.5 * {v}")
            self.write(depth + 1, f"{self.pick([name, other])}[{self.index()}] += 0.1 * {v}")
        if len(self.lines) < LONGEST:
            self.statement(depth + 1)
        if over == "m":
            self.vectors.remove(v)

    def branch(self, depth: int) -> None:
        self.write(depth, f"if {self.pick(['x[0] > 0.4', 'w > 0.5', 'n > 2'])}:")
        self.block(depth + 1)
        if self.draw(st.booleans()):
            self.write(depth, "else:")
            self.block(depth + 1)

    def several(self, depth: int) -> None:
        """Numbers of a comprehension over a function that may store."""
        calls = ["squares({})", "scaled({})[0]", "squares(scaled({}))", "squares(scaled({}.copy()))"]
        call = self.pick(calls)
        text = call.replace("{}", self.pick([*self.vectors, "r"]))
        self.write(depth, f"s += sum({text} for r in m)")


@st.composite
def alias_programs(draw: Draw) -> Program:
    """A def, and arguments: x and y of one length, w, and a matrix m of two rows or more."""
    writer = Writer(draw)
    writer.write(0, "s, z = 0.0, zeros(n)")
    for _ in range(draw(st.integers(2, 4))):
        writer.statement(0)
    results = st.sampled_from(["x", "y", "z", "sum(m)", "m[0]"])
    names = draw(st.lists(results, min_size=1, max_size=2, unique=True))
    writer.write(0, f"return s, {', '.join(names)}")
    source = "\n".join([HELPERS, "def f(x: f64[n], y: f64[n], w, m: f64[d, n]):", *writer.lines])
    random = np.random.default_rng(draw(st.integers(0, 2**16)))
    n = draw(st.integers(2, 5))
    x, y, m = (random.uniform(0.1, 0.9, s) for s in (n, n, (draw(st.integers(2, 6)), n)))
    return Program(source, (x, y, 0.7, m))
