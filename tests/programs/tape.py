"""Random programs of Variables: operations, views, changes in place, modes.

A program is text that either library of `tests.eager.tape_libraries` runs: `a` and `c` are leaves, `k` is a
constant, `loss` a number.
"""

from __future__ import annotations

import random
from typing import Any, NamedTuple

BEGIN = ["a = t.leaf([0.7, 1.6, 0.4])", "c = t.leaf([1.2, -0.9, 0.3])", "k = t.const([0.5, 2.0, 1.5])"]
UNARY = (
    "{}.exp()",
    "{}.sin()",
    "{}.tanh()",
    "{}.square()",
    "-{}",
    "{}.sigmoid()",
    "abs({}).sqrt()",
    "{}.relu()",
)
CHANGES = ("exp_", "sin_", "tanh_", "zero_", "square_")
SMOOTH = (
    "binary", "binary", "number", "unary", "element", "slice", "reduce", "reduce", "column", "row", "gather",
    "cumsum", "stack", "clone", "augment", "augment", "augment", "change", "set", "set part",
)  # fmt: skip
# The gradient is not the slope. (No hooks: PyTorch 2.13 crashes where some are registered on changed views.)
OTHERS = ("detach", "no_grad", "where", "maximum", "retain", "step")


class Program(NamedTuple):
    """Lines, and the names in them with the length of each; 0 for a number."""

    lines: list[str]
    lengths: dict[str, int]

    def __str__(self) -> str:
        return "\n".join(self.lines)

    def run(self, t: Any) -> dict[str, Any]:
        """What the names stand for at the end."""
        scope: dict[str, Any] = {"t": t}
        exec(str(self), scope)
        return scope


def program(seed: int, smooth: bool = False) -> Program:
    """A program; of `smooth` ones the gradient is the slope of the loss."""
    draw = random.Random(seed)
    made = Program([*BEGIN, "a, c = a + 0.0, c * 1.0"] if smooth else [*BEGIN], {"a": 3, "c": 3, "k": 3})
    for _ in range(draw.randint(2, 9)):
        _line(draw, made, draw.choice(SMOOTH if smooth else SMOOTH + OTHERS))
    out, other = draw.choice(list(made.lengths)), draw.choice(list(made.lengths))
    made.lines.append(f"loss = ({out} * {out}).sum() + {other}.sum()")
    return made


def _line(draw: random.Random, made: Program, kind: str) -> None:
    x = draw.choice(list(made.lengths))
    n = made.lengths[x]
    y = draw.choice([name for name, length in made.lengths.items() if length in (0, n)])
    new = _result(draw, made, kind, x, y)
    if new is not None:
        name = f"v{len(made.lines)}"
        source, made.lengths[name] = new
        prefix = "with t.no_grad(): " if kind == "no_grad" else ""
        made.lines.append(f"{prefix}{name} = {source}")
    else:
        made.lines.extend(_change(draw, made, kind, x, y))


def _result(draw: random.Random, made: Program, kind: str, x: str, y: str) -> tuple[str, int] | None:
    """An expression and its length."""
    n = made.lengths[x]
    match kind:
        case "binary":
            return f"{x} {draw.choice('+-*')} {y}", n
        case "number":
            return f"{x} {draw.choice(['* 2.0', '+ 1.0', '** 2', '- 0.5', '/ 2.0'])}", n
        case "unary":
            return draw.choice(UNARY).format(x), n
        case "element" if n:
            return f"{x}[{draw.randrange(n)}]", 0
        case "slice" if n == 3:
            return f"{x}[{draw.choice([':2', '1:'])}]", 2
        case "reduce":
            return f"{x}.{draw.choice(['sum', 'mean', 'max', 'prod'])}()", 0
        case "column" if n:
            return f"{x}.reshape({n}, 1)[:, 0]", n
        case "row" if n:
            return f"{x}.reshape(1, {n}).T[:, 0]", n
        case "gather" if n == 3:
            return f"{x}[t.whole([0, 2, 0])]", 3
        case "cumsum" if n:
            return f"{x}.cumsum(0)", n
        case "stack" if n == 0 and made.lengths[y] == 0:
            return f"t.np.stack([{x}, {y}, {x}], 0)", 3
        case "clone" | "detach" | "no_grad":
            ends = {"clone": ".clone()", "detach": ".detach().clone()", "no_grad": f" * {y}"}
            return x + ends[kind], n
        case "where" | "maximum":
            return (f"t.where({x} > 0.5, {x}, {y})" if kind == "where" else f"{x}.maximum({y})"), n
    return None


def _change(draw: random.Random, made: Program, kind: str, x: str, y: str) -> list[str]:
    """A statement that changes something, or none."""
    n = made.lengths[x]
    numbers = [name for name, length in made.lengths.items() if length == 0] or ["2.5"]
    match kind:
        case "augment":
            return [f"{x} {draw.choice(['+=', '-=', '*='])} {y}"]
        case "change":
            return [f"{x}.{draw.choice(CHANGES)}()"]
        case "set" if n:
            return [f"{x}[{draw.randrange(n)}] = {draw.choice(numbers)}"]
        case "set part" if n == 3:
            pairs = [name for name, length in made.lengths.items() if length == 2] or numbers
            return [f"{x}[{draw.choice([':2', '1:'])}] = {draw.choice(pairs)}"]
        case "step":
            return [f"with t.no_grad(): {x} {draw.choice(['+=', '*='])} {draw.choice(['0.5', y])}"]
        case "retain":
            return [f"{x}.retain_grad()"]
    return []
