"""Problems of Hock and Schittkowski, "Test Examples for Nonlinear Programming Codes" (1981), by number."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, pi, sqrt

import numpy as np

import adcompiler as adc


@dataclass(frozen=True)
class Problem:
    """`at_least` and `equal` have functions to be >= 0 and = 0; `bounds` are (lower, upper) pairs."""

    objective: str
    start: tuple[float, ...]
    least: float
    at_least: str = ""
    equal: str = ""
    bounds: tuple[tuple[float, float], ...] | None = None

    def compiled(self, text: str) -> adc.Function:
        unpacked = "\n".join(f"    x{k + 1} = x[{k}]" for k in range(len(self.start)))
        return adc.compile(f"def f(x):\n{unpacked}\n    return {text}", backend="numpy")

    @property
    def is_constrained(self) -> bool:
        return bool(self.at_least or self.equal)

    def program(self):
        """The problem for `adc.nlp`, and the limits of variables and constraints."""
        parts = [(text, high) for text, high in ((self.at_least, inf), (self.equal, 0)) if text]
        functions = [self.compiled(text) for text, _ in parts]
        made = adc.nlp(self.compiled(self.objective), functions, x0=np.array(self.start, float))
        high = [high for text, high in parts for _ in range(text.count(",") + 1)]
        bounds = np.array(self.bounds or ((-inf, inf),) * len(self.start), float)
        return made, {"lb": bounds[:, 0], "ub": bounds[:, 1], "cl": 0 if high else None, "cu": high or None}

    def solve(self, method: str):
        given = (("ineq", self.at_least), ("eq", self.equal))
        constraints = [{"type": kind, "fun": self.compiled(text)} for kind, text in given if text]
        options = {"maxiter": 3000} if method == "trust-constr" else {"maxiter": 500, "ftol": 1e-9}
        return adc.minimize(
            self.compiled(self.objective),
            list(self.start),
            method=method,
            bounds=self.bounds,
            constraints=constraints,
            options=options,
        )


PROBLEMS = {
    1: Problem("100 * (x2 - x1**2)**2 + (1 - x1)**2", (-2, 1), 0, bounds=((-inf, inf), (-1.5, inf))),
    3: Problem("x2 + 1e-5 * (x2 - x1)**2", (10, 1), 0, bounds=((-inf, inf), (0, inf))),
    4: Problem("(x1 + 1)**3 / 3 + x2", (1.125, 0.125), 8 / 3, bounds=((1, inf), (0, inf))),
    5: Problem(
        "sin(x1 + x2) + (x1 - x2)**2 - 1.5 * x1 + 2.5 * x2 + 1",
        (0, 0),
        -sqrt(3) / 2 - pi / 3,
        bounds=((-1.5, 4), (-3, 3)),
    ),
    6: Problem("(1 - x1)**2", (-1.2, 1), 0, equal="10 * (x2 - x1**2)"),
    7: Problem("log(1 + x1**2) - x2", (2, 2), -sqrt(3), equal="(1 + x1**2)**2 + x2**2 - 4"),
    9: Problem("sin(pi * x1 / 12) * cos(pi * x2 / 16)", (0, 0), -0.5, equal="4 * x1 - 3 * x2"),
    10: Problem("x1 - x2", (-10, 10), -1, "-3 * x1**2 + 2 * x1 * x2 - x2**2 + 1"),
    11: Problem("(x1 - 5)**2 + x2**2 - 25", (4.9, 0.1), -8.498464223, "-(x1**2) + x2"),
    12: Problem("x1**2 / 2 + x2**2 - x1 * x2 - 7 * x1 - 7 * x2", (0, 0), -30, "25 - 4 * x1**2 - x2**2"),
    14: Problem(
        "(x1 - 2)**2 + (x2 - 1)**2", (2, 2), 9 - 2.875 * sqrt(7), "1 - x1**2 / 4 - x2**2", "x1 - 2 * x2 + 1"
    ),
    21: Problem(
        "x1**2 / 100 + x2**2 - 100", (2, -1), -99.96, "10 * x1 - x2 - 10", bounds=((2, 50), (-50, 50))
    ),
    22: Problem("(x1 - 2)**2 + (x2 - 1)**2", (2, 2), 1, "2 - x1 - x2, x2 - x1**2"),
    24: Problem(
        "((x1 - 3)**2 - 9) * x2**3 / (27 * sqrt(3.0))",
        (1, 0.5),
        -1,
        "x1 / sqrt(3.0) - x2, x1 + sqrt(3.0) * x2, 6 - x1 - sqrt(3.0) * x2",
        bounds=((0, inf), (0, inf)),
    ),
    26: Problem("(x1 - x2)**2 + (x2 - x3)**4", (-2.6, 2, 2), 0, equal="(1 + x2**2) * x1 + x3**4 - 3"),
    27: Problem("(x1 - 1)**2 / 100 + (x2 - x1**2)**2", (2, 2, 2), 0.04, equal="x1 + x3**2 + 1"),
    28: Problem("(x1 + x2)**2 + (x2 + x3)**2", (-4, 1, 1), 0, equal="x1 + 2 * x2 + 3 * x3 - 1"),
    29: Problem("-x1 * x2 * x3", (1, 1, 1), -16 * sqrt(2), "48 - x1**2 - 2 * x2**2 - 4 * x3**2"),
    30: Problem(
        "x1**2 + x2**2 + x3**2", (1, 1, 1), 1, "x1**2 + x2**2 - 1", bounds=((1, 10), (-10, 10), (-10, 10))
    ),
    31: Problem(
        "9 * x1**2 + x2**2 + 9 * x3**2",
        (1, 1, 1),
        6,
        "x1 * x2 - 1",
        bounds=((-10, 10), (1, 10), (-10, 1)),
    ),
    35: Problem(
        "9 - 8 * x1 - 6 * x2 - 4 * x3 + 2 * x1**2 + 2 * x2**2 + x3**2 + 2 * x1 * x2 + 2 * x1 * x3",
        (0.5, 0.5, 0.5),
        1 / 9,
        "3 - x1 - x2 - 2 * x3",
        bounds=((0, inf),) * 3,
    ),
    36: Problem(
        "-x1 * x2 * x3", (10, 10, 10), -3300, "72 - x1 - 2 * x2 - 2 * x3", bounds=((0, 20), (0, 11), (0, 42))
    ),
    37: Problem(
        "-x1 * x2 * x3",
        (10, 10, 10),
        -3456,
        "72 - x1 - 2 * x2 - 2 * x3, x1 + 2 * x2 + 2 * x3",
        bounds=((0, 42),) * 3,
    ),
    38: Problem(
        "100 * (x2 - x1**2)**2 + (1 - x1)**2 + 90 * (x4 - x3**2)**2 + (1 - x3)**2"
        " + 10.1 * ((x2 - 1)**2 + (x4 - 1)**2) + 19.8 * (x2 - 1) * (x4 - 1)",
        (-3, -1, -3, -1),
        0,
        bounds=((-10, 10),) * 4,
    ),
    39: Problem("-x1", (2, 2, 2, 2), -1, equal="x2 - x1**3 - x3**2, x1**2 - x2 - x4**2"),
    40: Problem(
        "-x1 * x2 * x3 * x4", (0.8,) * 4, -0.25, equal="x1**3 + x2**2 - 1, x1**2 * x4 - x3, x4**2 - x2"
    ),
    42: Problem(
        "(x1 - 1)**2 + (x2 - 2)**2 + (x3 - 3)**2 + (x4 - 4)**2",
        (1, 1, 1, 1),
        28 - 10 * sqrt(2),
        equal="x1 - 2, x3**2 + x4**2 - 2",
    ),
    43: Problem(
        "x1**2 + x2**2 + 2 * x3**2 + x4**2 - 5 * x1 - 5 * x2 - 21 * x3 + 7 * x4",
        (0, 0, 0, 0),
        -44,
        "8 - x1**2 - x2**2 - x3**2 - x4**2 - x1 + x2 - x3 + x4,"
        " 10 - x1**2 - 2 * x2**2 - x3**2 - 2 * x4**2 + x1 + x4,"
        " 5 - 2 * x1**2 - x2**2 - x3**2 - 2 * x1 + x2 + x4",
    ),
    48: Problem(
        "(x1 - 1)**2 + (x2 - x3)**2 + (x4 - x5)**2",
        (3, 5, -3, 2, -2),
        0,
        equal="x1 + x2 + x3 + x4 + x5 - 5, x3 - 2 * (x4 + x5) + 3",
    ),
    50: Problem(
        "(x1 - x2)**2 + (x2 - x3)**2 + (x3 - x4)**4 + (x4 - x5)**2",
        (35, -31, 11, 5, -5),
        0,
        equal="x1 + 2 * x2 + 3 * x3 - 6, x2 + 2 * x3 + 3 * x4 - 6, x3 + 2 * x4 + 3 * x5 - 6",
    ),
    51: Problem(
        "(x1 - x2)**2 + (x2 + x3 - 2)**2 + (x4 - 1)**2 + (x5 - 1)**2",
        (2.5, 0.5, 2, -1, 0.5),
        0,
        equal="x1 + 3 * x2 - 4, x3 + x4 - 2 * x5, x2 - x5",
    ),
    52: Problem(
        "(4 * x1 - x2)**2 + (x2 + x3 - 2)**2 + (x4 - 1)**2 + (x5 - 1)**2",
        (2,) * 5,
        1859 / 349,
        equal="x1 + 3 * x2, x3 + x4 - 2 * x5, x2 - x5",
    ),
    53: Problem(
        "(x1 - x2)**2 + (x2 + x3 - 2)**2 + (x4 - 1)**2 + (x5 - 1)**2",
        (2,) * 5,
        176 / 43,
        equal="x1 + 3 * x2, x3 + x4 - 2 * x5, x2 - x5",
        bounds=((-10, 10),) * 5,
    ),
    63: Problem(
        "1000 - x1**2 - 2 * x2**2 - x3**2 - x1 * x2 - x1 * x3",
        (2, 2, 2),
        961.7151721,
        equal="8 * x1 + 14 * x2 + 7 * x3 - 56, x1**2 + x2**2 + x3**2 - 25",
        bounds=((0, inf),) * 3,
    ),
    65: Problem(
        "(x1 - x2)**2 + (x1 + x2 - 10)**2 / 9 + (x3 - 5)**2",
        (-5, 5, 0),
        0.9535288567,
        "48 - x1**2 - x2**2 - x3**2",
        bounds=((-4.5, 4.5), (-4.5, 4.5), (-5, 5)),
    ),
    71: Problem(
        "x1 * x4 * (x1 + x2 + x3) + x3",
        (1, 5, 5, 1),
        17.0140173,
        "x1 * x2 * x3 * x4 - 25",
        "x1**2 + x2**2 + x3**2 + x4**2 - 40",
        ((1, 5),) * 4,
    ),
    76: Problem(
        "x1**2 + x2**2 / 2 + x3**2 + x4**2 / 2 - x1 * x3 + x3 * x4 - x1 - 3 * x2 + x3 - x4",
        (0.5,) * 4,
        -4.681818182,
        "5 - x1 - 2 * x2 - x3 - x4, 4 - 3 * x1 - x2 - 2 * x3 + x4, x2 + 4 * x3 - 1.5",
        bounds=((0, inf),) * 4,
    ),
    77: Problem(
        "(x1 - 1)**2 + (x1 - x2)**2 + (x3 - 1)**2 + (x4 - 1)**4 + (x5 - 1)**6",
        (2,) * 5,
        0.24150513,
        equal="x1**2 * x4 + sin(x4 - x5) - 2 * sqrt(2.0), x2 + x3**4 * x4**2 - 8 - sqrt(2.0)",
    ),
    78: Problem(
        "x1 * x2 * x3 * x4 * x5",
        (-2, 1.5, 2, -1, -1),
        -2.91970041,
        equal="x1**2 + x2**2 + x3**2 + x4**2 + x5**2 - 10, x2 * x3 - 5 * x4 * x5, x1**3 + x2**3 + 1",
    ),
    79: Problem(
        "(x1 - 1)**2 + (x1 - x2)**2 + (x2 - x3)**2 + (x3 - x4)**4 + (x4 - x5)**4",
        (2,) * 5,
        0.0787768209,
        equal="x1 + x2**2 + x3**3 - 2 - 3 * sqrt(2.0), x2 - x3**2 + x4 + 2 - 2 * sqrt(2.0), x1 * x5 - 2",
    ),
    80: Problem(
        "exp(x1 * x2 * x3 * x4 * x5)",
        (-2, 2, 2, -1, -1),
        0.0539498478,
        equal="x1**2 + x2**2 + x3**2 + x4**2 + x5**2 - 10, x2 * x3 - 5 * x4 * x5, x1**3 + x2**3 + 1",
        bounds=((-2.3, 2.3), (-2.3, 2.3), (-3.2, 3.2), (-3.2, 3.2), (-3.2, 3.2)),
    ),
    100: Problem(
        "(x1 - 10)**2 + 5 * (x2 - 12)**2 + x3**4 + 3 * (x4 - 11)**2 + 10 * x5**6 + 7 * x6**2 + x7**4"
        " - 4 * x6 * x7 - 10 * x6 - 8 * x7",
        (1, 2, 0, 4, 0, 1, 1),
        680.6300573,
        "127 - 2 * x1**2 - 3 * x2**4 - x3 - 4 * x4**2 - 5 * x5,"
        " 282 - 7 * x1 - 3 * x2 - 10 * x3**2 - x4 + x5,"
        " 196 - 23 * x1 - x2**2 - 6 * x6**2 + 8 * x7,"
        " -4 * x1**2 - x2**2 + 3 * x1 * x2 - 2 * x3**2 - 5 * x6 + 11 * x7",
    ),
}
