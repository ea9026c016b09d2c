"""What operators and the names of other languages and libraries mean: tables."""

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
# What other languages and libraries call it.
ELSEWHERE = {
    "ln": "the natural logarithm is log",
    "sec": "write 1 / cos(x)",
    "csc": "write 1 / sin(x)",
    "cot": "write 1 / tan(x)",
    "print": "programs have no output but their result",
    "range": "it stands behind `in`: [i for i in range(n)]; an array of numbers is arange(n)",
    "enumerate": "it stands behind `in`: [i * v for i, v in enumerate(x)]",
    "zip": "it stands behind `in`: [a * b for a, b in zip(x, y)]",
    "float64": "remove it: whole numbers become floats where they must",
}


# Functions of other libraries that mean something else than ours of the same name.
OTHERWISE = {
    ("math", "remainder"): "it rounds the quotient to the nearest: write x - y * round(x / y), or x % y",
}
