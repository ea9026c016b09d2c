"""Which operations keep values for their derivative: a second pass, and changes after the forward pass.

An operation whose derivative reads no value can be walked again after a pass freed the graph. One whose
derivative reads its operand refuses after a change of the operand; one that reads its result, after a change
of the result. Some keep another of the two than PyTorch does, or a copy, and are right where it refuses.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.eager.tape_cases.registry import CASES

OPERATIONS = {
    "add": "x + y",
    "add_a_number": "x + 1.0",
    "subtract": "x - y",
    "subtract_from_a_number": "1.0 - x",
    "negative": "-x",
    "multiply": "x * y",
    "multiply_by_a_constant": "x * t.const([2.0, 3.0])",
    "divide": "x / y",
    "divide_a_number": "2.0 / x",
    "power_of_two": "x ** 2",
    "power_of_variables": "x ** y",
    "power_of_a_number": "2.0 ** x",
    "exp": "x.exp()",
    "log": "x.log()",
    "sqrt": "x.sqrt()",
    "sin": "x.sin()",
    "cos": "x.cos()",
    "tan": "x.tan()",
    "tanh": "x.tanh()",
    "sigmoid": "x.sigmoid()",
    "reciprocal": "x.reciprocal()",
    "arctan": "x.arctan()",
    "erf": "x.erf()",
    "abs": "abs(x)",
    "relu": "x.relu()",
    "square": "x.square()",
    "log1p": "x.log1p()",
    "expm1": "x.expm1()",
    "maximum": "x.maximum(y)",
    "where": "t.where(y > 1.0, x, y)",
    "sum": "x.sum()",
    "mean": "x.mean()",
    "sum_of_an_axis": "x.reshape(1, 2).sum(0)",
    "reshape": "x.reshape(2, 1)",
    "the_transpose": "x.reshape(2, 1).T",
    "expand": "x.reshape(2, 1).expand(2, 2)",
    "clone": "x.clone()",
    "slice": "x[:1]",
    "element": "x[1]",
    "indices": "x[t.whole([0, 0])]",
    "mask": "x[t.whole([True, False])]",
    "newaxis": "x[:, None]",
    "matmul": "x @ y",
    "dot": "t.np.dot(x, y)",
    "max": "x.max()",
    "prod": "x.prod()",
    "cumsum": "x.cumsum(0)",
    "cumprod": "x.cumprod(0)",
    "stack": "t.np.stack([x, y], 0)",
    "concatenate": "t.np.concatenate([x, y], 0)",
    "flip": "t.np.flip(x, 0)",
    "roll": "t.np.roll(x, 1)",
    "repeat": "t.np.repeat(x, 2)",
    "squeeze": "t.np.squeeze(x.reshape(1, 2))",
    "swapaxes": "t.np.swapaxes(x.reshape(1, 2), 0, 1)",
    "expand_dims": "t.np.expand_dims(x, 0)",
    "outer": "t.np.outer(x, y)",
    "var": "t.np.var(x)",
    "norm": "t.np.linalg.norm(x)",
    "trace": "t.np.trace(x.reshape(1, 2))",
    "diag": "t.np.diag(x)",
    "tril": "t.np.tril(x.reshape(1, 2))",
    "sort": "t.np.sort(x)",
}


def _begun(source: str, t: Any) -> tuple[Any, Any, Any, Any, Any]:
    """Two leaves, what was computed from them without values, and the operation's result."""
    a, b = t.leaf([0.7, 1.6]), t.leaf([1.2, 0.9])
    x, y = a + 0.0, b + 0.0
    return a, b, x, y, eval(source, {"t": t, "x": x, "y": y})


def twice(source: str) -> Callable[[Any], Any]:
    def run(t: Any) -> Any:
        a, b, _, _, result = _begun(source, t)
        total = result.sum()
        total.backward()
        total.backward()
        return [a.grad, b.grad]

    return run


def operand_changed(source: str) -> Callable[[Any], Any]:
    def run(t: Any) -> Any:
        a, b, x, _, result = _begun(source, t)
        x += 1.0
        result.sum().backward()
        return [a.grad, b.grad]

    return run


def result_changed(source: str) -> Callable[[Any], Any]:
    def run(t: Any) -> Any:
        a, b, _, _, result = _begun(source, t)
        result *= 2.0
        result.sum().backward()
        return [a.grad, b.grad]

    return run


READ_THE_OPERAND = {"relu", "expm1", "tanh", "sigmoid"}  # where PyTorch keeps the result
OTHERWISE = READ_THE_OPERAND | {"divide", "divide_a_number", "prod", "var"}  # keep something else
COPIED = READ_THE_OPERAND | {"prod", "cumprod", "norm", "expand"}
for _name, _source in OPERATIONS.items():
    CASES[f"twice_{_name}"] = twice(_source)
    if _name not in OTHERWISE:
        CASES[f"operand_changed_{_name}"] = operand_changed(_source)
    if _name not in COPIED:
        CASES[f"result_changed_{_name}"] = result_changed(_source)
