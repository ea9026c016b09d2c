"""The table of what eager Variables share with PyTorch: each case is a function of one of the two libraries.

`t` has `leaf`, `const`, `grad`, `where`, `no_grad` and `enable_grad` of the library. What a case returns is
made of numbers, lists, truth values and None; an error is "refused".
"""

from tests.eager.tape_cases import (
    corners,
    flags,
    forms,
    freed,
    functions,
    grads,
    hooks,
    inplace,
    kinks,
    leaves,
    modes,
    retained,
    statements,
    steps,
    values,
    values_of_python,
    views,
)
from tests.eager.tape_cases.registry import CASES

__all__ = [
    "CASES",
    "corners",
    "flags",
    "forms",
    "freed",
    "functions",
    "grads",
    "hooks",
    "inplace",
    "kinks",
    "leaves",
    "modes",
    "retained",
    "statements",
    "steps",
    "values",
    "values_of_python",
    "views",
]
