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
    "nanmean": "write sum(where(isnan(x), 0, x)) / sum(1 - isnan(x))",
    "nansum": "write sum(where(isnan(x), 0, x))",
    "nanmax": "write max(where(isnan(x), -inf, x))",
    "nanmin": "write min(where(isnan(x), inf, x))",
    "ptp": "write max(x) - min(x)",
    "partition": "write sort(x)",
    "unique": "the result's length would depend on values: group by integers, with bincount(k, minlength=n)",
    "nonzero": "the result's length would depend on values: use where(x != 0, a, b)",
    "argwhere": "the result's length would depend on values: use where(x != 0, a, b)",
    "flatnonzero": "the result's length would depend on values: use where(x != 0, a, b)",
    "histogram": "write bincount(searchsorted(edges, x, side='right'), minlength=len(edges) + 1)[1:-1]",
    "digitize": "write searchsorted(edges, x, side='right')",
    "gradient": "write diff(x) for differences, or grad(f)(x) for the derivative of a function f",
    "correlate": "write convolve(x, v[::-1], 'valid')",
    "corrcoef": "write c / sqrt(outer(diag(c), diag(c))) with c = cov(x)",
    "count_nonzero": "write sum(x != 0)",
    "array_split": "write slices: x[:n], x[n:]",
    "split": "write slices: x[:n], x[n:]",
    "dstack": "write stack((a, b), axis=2)",
    "delete": "write concatenate((x[:k], x[k + 1:]))",
    "insert": "write concatenate((x[:k], [v], x[k:]))",
    "isclose": "write abs(x - y) <= 1e-8 + 1e-5 * abs(y)",
    "allclose": "write all(abs(x - y) <= 1e-8 + 1e-5 * abs(y))",
    "array_equal": "write all(x == y)",
    "nan_to_num": "write where(isnan(x), 0, x)",
    "matrix_power": "write a @ a @ a, or a loop",
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
}
