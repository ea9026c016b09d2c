"""Random programs of loops, branches, stores and index notation for Hypothesis.

All work on `x: f64[n]`, `y: f64[n, d]`, `w` and `at: i64[m]`. Every name keeps its kind (scalar, vector as
long as x, or integer), and what is stored is squeezed through sin or tanh: so values stay small, and an
iteration may do anything with them. Conditions compare integers, or inputs with thresholds that they never
meet.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hypothesis import strategies as st

from programs import Draw, Program

SQUEEZED = ("sin({})", "tanh({})", "cos({} + 0.3)")
BINARY = ("{} + {}", "{} - 0.5 * {}", "{} * {}", "{} / (1.5 + {}**2)", "{} + 0.1 * {}**2")
KINKS = (
    "max({}, {})",
    "min({}, {})",
    "minimum({}, 0.137)",
    "clip({}, -0.613, 0.457)",
    "abs({} - 0.137)",
    "where({} > 0.137, {}, {})",
    "floor(3 * {} + 0.137) * 0.1",
)
RANGES = (
    "range(n)",
    "range(1, n)",
    "range(n - 1, -1, -1)",
    "range(0, n, 2)",
    "range(n - 2)",
    "range(len(at))",
)
TRIANGLES = ("range({})", "range({}, n)", "range({} % 2, n, 2)")
LONGEST = 8  # lines, more or less: a second derivative of thirty lines may take a minute
REDUCED = ("sum", "max", "min", "mean", "logsumexp")
CUT = (
    "{0}[: {1} % n + 1]", "{0}[{1} % n :]", "{0}[{1} % n // 2 : {1} % n + 1]", "{0}[{1} % n :: -1]",
)  # fmt: skip
OF_CUTS = (
    "sum({0})", "prod({0})", "mean({0})", "var({0})", "std(concatenate(({0}, [3.7, -4.1])))", "norm({0} + 3)",
    "max({0})", "min({0})", "logsumexp({0})", "median({0})", "average({0}, weights=1 + {0}**2)",
    "{0}[argmax({0})]", "{0}[argmin({0})]", "{0} @ {0}", "sum(softmax({0}) * {0})", "sum(cumsum({0}) * {0})",
    "sum(cumprod({0}))", "sum(cummax({0}) * {0})", "sum(sort({0}) * {0})", "quantile({0}, 0.3)",
    "trapezoid({0})", "norm(outer({0} + 3, {0} - 3))",
)  # fmt: skip
PARAMETERS = (
    "x: f64[n], y: f64[n, d], w, at: i64[m_]",
    "x: np.ndarray, y: f64[n, d], w: float, at: np.ndarray",
    "x: f64[n], y: f64[h + 1, d], w: f64, at: i64[k_ + 1]",
    "x: f64[h - d], y: f64[n, d], w: Any, at: i64[m_ + d - 1]",
)


RESULT = "return s + u, z * w, x, c"


@dataclass
class Writer:
    """Writes the body of a def; `scalars`, `vectors` and `counts` are the names in scope, `indices` those of
    loops and clauses."""

    draw: Draw
    lines: list[str] = field(default_factory=list)
    scalars: list[str] = field(default_factory=lambda: ["w"])
    vectors: list[str] = field(default_factory=lambda: ["x"])
    counts: list[str] = field(default_factory=list)
    indices: list[str] = field(default_factory=list)
    within: set[str] = field(default_factory=set)  # indices that are less than n
    walked: list[str] = field(default_factory=list)  # vectors that loops around run over
    functions: list[str] = field(default_factory=list)  # nested, of one number and of the names around
    made: int = 0
    around: list[str] = field(default_factory=list)  # of each loop around: what its next iteration needs

    def pick(self, options: Any) -> Any:
        return self.draw(st.sampled_from(list(options)))

    def fresh(self, letter: str) -> str:
        self.made += 1
        return f"{letter}{self.made}"

    def write(self, depth: int, text: str) -> None:
        self.lines.append("    " * (depth + 1) + text)

    # -- expressions -----------------------------------------------------------------------------

    def index(self) -> str:
        """A place in a vector; it may count from the end, and a gather may meet a place twice."""
        if not self.indices:
            return self.pick(["0", "-1", "n // 2"])
        i = self.pick(self.indices)
        if i in self.within and self.draw(st.booleans()):
            return i
        text: str = self.pick([f"{i} % n", f"({i} + 1) % n", f"n - 1 - {i} % n", f"at[{i} % len(at)]", "-1"])
        return text

    def scalar(self, depth: int = 2) -> str:
        if depth == 0:
            leaves = [*self.scalars, "0.7"]
            leaves += [f"{v}[{self.index()}]" for v in self.vectors]
            leaves += [f"y[{self.index()}, {self.pick(('0', '-1'))}]"]
            leaves += [f"0.1 * {i}" for i in (*self.indices, *self.counts)]
            return str(self.pick(leaves))
        kind = self.draw(st.integers(0, 7))
        if kind >= 6:
            text = self.pick(KINKS)
            return str(text.format(*(self.scalar(depth - 1) for _ in range(text.count("{}")))))
        if kind == 0 and len(self.indices) < 3:
            return self.reduced(depth)
        if kind == 2 and self.functions:
            return f"{self.pick(self.functions)}({self.scalar(depth - 1)})"
        if kind == 1:
            return f"({self.scalar(depth - 1)} if {self.condition()} else {self.scalar(depth - 1)})"
        counted = [i for i in self.indices if not i.startswith("k")]  # of loops, not of clauses
        if kind == 2 and counted:
            return self.cut(self.pick(counted))
        text = self.pick(BINARY).format(self.scalar(depth - 1), self.scalar(depth - 1))
        return str(self.pick(SQUEEZED).format(f"({text})"))

    def cut(self, index: str) -> str:
        """A reduction of a slice that is as long as an iteration says, and not empty."""
        part = self.pick(CUT).format(self.pick(self.vectors), index)
        return f"tanh({self.pick(OF_CUTS).format(part)})"

    def reduced(self, depth: int) -> str:
        """A generator, perhaps over a triangle or under a condition."""
        k = self.fresh("k")
        span = self.span()
        self.indices.append(k)
        body = self.scalar(depth - 1)
        name = self.pick(REDUCED)
        condition = f" if {self.condition()}" if name == "sum" and self.draw(st.booleans()) else ""
        self.indices.pop()
        if name != "sum":
            span = "range(n)"  # which is not empty
        return f"tanh({name}({body} for {k} in {span}{condition}))"

    def span(self) -> str:
        if self.indices and self.draw(st.booleans()):
            return str(self.pick(TRIANGLES).format(self.pick(self.indices)))
        return str(self.pick(RANGES))

    def vector(self) -> str:
        k = self.fresh("k")
        self.indices.append(k)
        text = self.scalar(1)
        self.indices.pop()
        comprehension = f"[{text} for {k} in range(n)]"
        plain = self.pick(SQUEEZED).format(
            self.pick(BINARY).format(self.pick(self.vectors), self.pick([*self.vectors, *self.scalars]))
        )
        gathered = f"{self.pick(self.vectors)}[::-1].copy()"
        return str(self.pick([comprehension, plain, gathered]))

    def condition(self) -> str:
        """A test that no small change of an input changes, often one of a computed value."""
        tests = ["w > 0.1", f"x[{self.index()}] > 0.2", "n > 2"]
        tests += [f"{s} > 0.137" for s in self.scalars] + [
            f"{self.scalar(0)} * 0.7 < {self.scalar(0)} - 0.137"
        ]
        tests += [f"{i} % 2 == 0" for i in (*self.indices, *self.counts)]
        if len(self.indices) > 1:
            tests.append(f"{self.indices[-1]} < {self.indices[0]}")
        first: str = self.pick(tests)
        return str(self.pick([first, first, f"not {first}", f"{first} and {self.pick(tests)}"]))

    # -- statements ------------------------------------------------------------------------------

    def statement(self, depth: int) -> None:
        kinds = [self.assignment, self.assignment, self.swap, self.store, self.count]
        if depth < 3 and len(self.lines) < LONGEST:
            kinds += [self.loop, self.branch, self.repeat, self.total]
        kinds += [self.append] if depth < 2 and len(self.lines) < LONGEST else []
        kinds += [self.leave] if self.around else []
        kinds += [self.show] * (self.draw(st.integers(0, 3)) == 0)
        self.pick(kinds)(depth)

    def block(self, depth: int) -> None:
        for _ in range(1 if len(self.lines) > LONGEST else self.draw(st.integers(1, 3))):
            self.statement(depth)

    def assignment(self, depth: int) -> None:
        if self.draw(st.booleans()):
            self.write(depth, f"{self.pick(self.scalars)} = {self.scalar()}")
        else:
            self.write(depth, f"{self.bindable()} = {self.vector()}")

    def bindable(self) -> str:
        """A vector, which may get another array; a loop that runs over one sees what is stored in it."""
        return str(self.pick(v for v in self.vectors if v not in self.walked))

    def swap(self, depth: int) -> None:
        names = self.pick([self.scalars, [v for v in self.vectors if v not in self.walked]])
        one, other = self.pick(names), self.pick(names)
        if one != other:
            self.write(depth, f"{one}, {other} = {other}, {one}")
        else:
            self.assignment(depth)

    def store(self, depth: int) -> None:
        target = f"{self.pick(self.vectors)}[{self.index()}]"
        text = f"{target} {self.pick(['=', '+=', '*='])} {self.scalar()}"
        places = ["1:", ":-1", "::2", "arange(n)[::-1]", "[(k + 1) % n for k in range(n)]", "x > 0.2"]
        whole = f"{self.pick(self.vectors)}[{self.pick(places)}] *= {self.scalar(1)}"
        self.write(depth, self.pick([text, text, whole]))

    def function(self, depth: int) -> None:
        """A function that reads names of the def around it, as they are when it is called."""
        g, a = self.fresh("g"), self.fresh("a")
        self.write(depth, f"def {g}({a}):")
        self.scalars.append(a)
        text = self.scalar(1)
        if self.draw(st.booleans()):
            self.write(depth + 1, f"if {self.condition()}:")
            self.write(depth + 2, f"return {self.scalar(1)}")
        self.scalars.remove(a)
        self.write(depth + 1, f"return {text}")
        self.functions.append(g)

    def append(self, depth: int) -> None:
        """A list that a loop appends to, an element an iteration."""
        p, k = self.fresh("p"), self.fresh("k")
        self.write(depth, f"{p} = []")
        self.write(depth, f"for {k} in range(n):")
        self.indices.append(k)
        if self.draw(st.booleans()):
            self.assignment(depth + 1)
        last = f"{p}[-1] * 0.3 + " if self.draw(st.booleans()) else ""
        first = f"{p}.append({last and f'0.0 if {k} == 0 else '}{last}{self.scalar(1)})"
        if self.draw(st.booleans()):
            self.write(depth + 1, first)
        else:
            self.write(depth + 1, f"if {self.condition()}:")
            self.write(depth + 2, first)
            self.write(depth + 1, "else:")
            self.write(depth + 2, f"{p}.append({self.scalar(1)})")
        self.indices.pop()
        self.write(depth, f"{self.bindable()} = np.array({p})")

    def count(self, depth: int) -> None:
        if self.counts:
            self.write(depth, f"{self.pick(self.counts)} += {self.pick(['1', '2'])}")
        else:
            self.assignment(depth)

    def loop(self, depth: int) -> None:
        i = self.fresh("i")
        v = walked = ""
        if self.draw(st.integers(0, 3)) == 0 and not self.walked:
            v, walked = self.fresh("v"), self.pick(self.vectors)
            self.write(depth, f"for {i}, {v} in enumerate({walked}):")
            self.scalars.append(v)
            self.walked.append(walked)
        else:
            self.write(depth, f"for {i} in {self.span()}:")
        self.indices.append(i)
        self.around.append("")
        self.block(depth + 1)
        self.around.pop()
        self.indices.pop()
        if v:
            self.scalars.remove(v)
            self.walked.remove(walked)

    def repeat(self, depth: int) -> None:
        """A while loop that ends, as integers do."""
        k, end = self.fresh("q"), self.pick(["3", "n", "n - 1", "n - 3"])
        start, test, step = ("0", f"< {end}", "+= 1") if self.draw(st.booleans()) else (end, "> 0", "-= 1")
        if end == "n - 1":
            self.within.add(k)
        self.write(depth, f"{k} = {start}")
        self.write(depth, f"while {k} {test}:")
        self.indices.append(k)
        self.around.append(f"{k} {step}")
        self.block(depth + 1)
        self.around.pop()
        self.indices.pop()
        self.write(depth + 1, f"{k} {step}")

    def leave(self, depth: int) -> None:
        """A `break` or a `continue` under a condition."""
        self.write(depth, f"if {self.condition()}:")
        if self.draw(st.booleans()):
            self.assignment(depth + 1)
        if self.around[-1]:
            self.write(depth + 1, self.around[-1])
        self.write(depth + 1, self.pick(["break", "continue", RESULT]))

    def show(self, depth: int) -> None:
        """A line that changes nothing."""
        names = [*self.scalars, *self.vectors, *self.counts, *self.indices]
        self.write(depth, f"print('{len(self.lines)}:', {self.pick(names)}, {self.scalar(0)})")

    def total(self, depth: int) -> None:
        """A loop that only adds up: its iterations are computed at once, with slices of many lengths."""
        i = self.fresh("i")
        self.write(depth, f"for {i} in range(n):")
        self.write(depth + 1, f"{self.pick(self.scalars)} += {self.scalar(0)} * {self.cut(i)}")

    def branch(self, depth: int) -> None:
        self.write(depth, f"if {self.condition()}:")
        self.block(depth + 1)
        if self.draw(st.booleans()):
            self.write(depth, "else:")
            self.block(depth + 1)


@st.composite
def loop_programs(draw: Draw) -> Program:
    """A def of loops and branches, and arguments."""
    writer = Writer(draw)
    for name, start, names in (
        ("s", "0.5", writer.scalars),
        ("u", "x[0]", writer.scalars),
        ("z", "zeros(n)", writer.vectors),
        ("c", "0", writer.counts),
    ):
        writer.write(0, f"{name} = {start}")
        names.append(name)
    if draw(st.booleans()):
        writer.function(0)
    writer.loop(0)
    for _ in range(draw(st.integers(0, 3))):
        writer.statement(0)
    writer.write(0, RESULT)
    source = "\n".join([f"def f({draw(st.sampled_from(PARAMETERS))}):", *writer.lines])
    random = np.random.default_rng(draw(st.integers(0, 2**16)))
    n, d = draw(st.integers(1, 4)), draw(st.integers(1, 2))
    pool = random.permutation(np.arange(301, 1999, 2) / 1000) * random.choice((-1, 1), 849)
    x, y, w = pool[:n], pool[n : n + n * d].reshape(n, d), float(pool[-1])
    return Program(source, (x, y, w, random.integers(-n, n, draw(st.integers(1, 3)))))
