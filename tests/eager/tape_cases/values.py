"""Values and gradients of orders 1 to 3."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.eager.tape_cases.registry import CASES

EXPRESSIONS = {
    "add": "x + y",
    "subtract": "2.0 - x - y",
    "multiply": "x * y * x",
    "divide": "x / y",
    "reciprocal": "1.0 / x",
    "power": "x ** 3",
    "power_of_variables": "x ** y",
    "power_of_a_number": "2.0 ** x",
    "negative": "-x * y",
    "remainder": "(5.0 * x) % 3.0 * y",
    "exp": "(x * y).exp()",
    "log": "(x * y).log()",
    "sqrt": "(x + y).sqrt()",
    "sin": "(x * y).sin()",
    "cos": "x.cos() * y",
    "tan": "x.tan() * y",
    "tanh": "(x * y).tanh()",
    "sigmoid": "(x * y).sigmoid()",
    "arcsin": "(x / 3.0).arcsin() * y",
    "arctan": "(x * y).arctan()",
    "arctan2": "x.arctan2(y)",
    "sinh": "x.sinh() * y",
    "erf": "(x * y).erf()",
    "log1p": "(x * y).log1p()",
    "expm1": "(x * y).expm1()",
    "abs": "abs(x - y) * x",
    "maximum": "x.maximum(y) * x",
    "minimum": "x.minimum(y) * y * y",
    "where": "t.where(x > y, x * x * y, y * y)",
    "sum": "(x * y).sum() * x",
    "mean": "(x * x).mean() * y",
    "sum_of_an_axis": "((x * y).reshape(1, 2) ** 2).sum(0)",
    "reshape": "x.reshape(2, 1) * y ** 2 * x",
    "index": "x[0] * x[1] * y",
    "slice": "x[:1] * y * x",
    "mask": "x[x > 1.0] * x * y",
    "broadcast": "x.reshape(2, 1) ** 2 * y * y",
    "clone": "x.clone() * x * y.clone()",
    "matmul": "x @ y * x",
    "max": "x.max() * x * y",
    "min": "x.min() * x * y",
    "prod": "x.prod() * y",
    "cumsum": "(x * x).cumsum(0) * y",
    "softplus": "(1.0 + (x * y).exp()).log()",
}


def expression(source: str, orders: int = 3) -> Callable[[Any], Any]:
    """The value and the gradients of orders 1, 2, ..., each order of a weighted sum of the last."""

    def run(t: Any) -> Any:
        x, y = t.leaf([0.7, 1.6]), t.leaf([1.2, 0.9])
        result = eval(source, {"t": t, "x": x, "y": y})
        found = [result]
        total = (result * t.const([1.0, -0.5])).sum() if result.shape == (2,) else (result * result).sum()
        for _ in range(orders):
            slopes = t.grad(total, [x, y], create_graph=True)
            found.append(slopes)
            total = sum((g * g * t.const([0.3, 0.8])).sum() for g in slopes if g is not None)
            if isinstance(total, int) or not total.requires_grad:
                break
        return found

    return run


for _name, _source in EXPRESSIONS.items():
    CASES[f"value_of_{_name}"] = expression(_source)
