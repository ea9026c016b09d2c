"""Tables of operators, and of names from other languages and libraries."""

from __future__ import annotations

BINARY = {
    "+": "add", "-": "subtract", "*": "multiply", "/": "divide", "**": "power", "//": "floor_divide",
    "%": "remainder", "&": "bitwise_and", "|": "bitwise_or", "^": "bitwise_xor", "<<": "left_shift",
    ">>": "right_shift",
}  # fmt: skip
COMPARE = {
    "<": "less", "<=": "less_equal", ">": "greater", ">=": "greater_equal", "==": "equal",
    "!=": "not_equal",
}  # fmt: skip
LOGICAL = {"bitwise_and": "logical_and", "bitwise_or": "logical_or", "bitwise_xor": "logical_xor"}
# Names in other languages and libraries.
ELSEWHERE = {
    "ln": "the natural logarithm is log",
    "sec": "write 1 / cos(x)",
    "csc": "write 1 / sin(x)",
    "cot": "write 1 / tan(x)",
    "print": "it returns no value: write it on a separate line",
    "range": "it belongs after `in`: [i for i in range(n)]; an array of numbers is arange(n)",
    "enumerate": "it belongs after `in`: [i * v for i, v in enumerate(x)]",
    "zip": "it belongs after `in`: [a * b for a, b in zip(x, y)]",
    "float64": "remove it: integers become floats where needed",
    "partition": "write sort(x)",
    "unique": "the result's length would depend on values: group by integers, with bincount(k, minlength=n)",
    "nonzero": "the result's length would depend on values: use where(x != 0, a, b)",
    "piecewise": "write select([x < 0, x < 1], [a, b], c): the first condition that holds chooses",
    "argwhere": "the result's length would depend on values: use where(x != 0, a, b)",
    "flatnonzero": "the result's length would depend on values: use where(x != 0, a, b)",
    "histogram": "write bincount(searchsorted(edges, x, side='right'), minlength=len(edges) + 1)[1:-1]",
    "array_equal": "write all(x == y)",
    "sorted": "write sort(x)",
    "unsqueeze": "write expand_dims(x, axis)",
    "permute": "write transpose(x, axes)",
    "cat": "write concatenate((a, b))",
    "gather": "write take_along_axis(x, idx, axis)",
    "scatter_add": "write segment_sum(x, groups, n)",
    "mm": "write a @ b",
    "bmm": "write a @ b",
}


# Functions of other libraries that differ from ours of the same name.
OTHERWISE = {
    ("math", "remainder"): "it rounds the quotient to the nearest: write x - y * round(x / y), or x % y",
    ("math", "isclose"): "its tolerances are not NumPy's: write abs(x - y) <= 1e-9 * maximum(abs(x), abs(y))",
    ("special", "jvp"): "the derivative of a Bessel function is diff(jn(v, z), z)",
    ("scipy.special", "jvp"): "the derivative of a Bessel function is diff(jn(v, z), z)",
}
