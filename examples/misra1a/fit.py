"""Fit the NIST data set Misra1a with SciPy and a compiled gradient, and compare with the certified answer.

Run it from anywhere: `python examples/misra1a/fit.py`.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from scipy.optimize import OptimizeResult, minimize

import adcompiler as adc

HERE = Path(__file__).parent
STARTS = [(500.0, 0.0001), (250.0, 0.0005)]
CERTIFIED = {"b1": 2.3894212918e02, "b2": 5.5015643181e-04, "residual sum": 1.2455138894e-01}

loss = adc.load(HERE / "misra1a.adc").loss
value_and_grad = adc.value_and_grad(loss, wrt=("b1", "b2"))


def fit(start: tuple[float, float], x: np.ndarray, y: np.ndarray) -> OptimizeResult:
    """The parameters (b1, b2) that minimise the residual sum of squares, from `start`."""
    scale = np.array(start)  # b1 is a million times b2: BFGS sees both as multiples of their start

    def objective(u: np.ndarray) -> tuple[float, np.ndarray]:
        b1, b2 = u * scale
        value, grads = value_and_grad(b1, b2, x, y)
        return value, np.array(grads) * scale

    result = minimize(objective, np.ones(2), jac=True, method="BFGS", options={"gtol": 1e-7})
    result.x = result.x * scale
    return result


def main() -> list[OptimizeResult]:
    """Fit from both of NIST's starting points and print each result beside the certified one."""
    y, x = np.loadtxt(HERE / "misra1a.csv", delimiter=",", skiprows=1, unpack=True)
    results = [fit(start, x, y) for start in STARTS]
    for (b1, b2), result in zip(STARTS, results, strict=True):
        print(f"from b1 = {b1:g}, b2 = {b2:g}: {result.nfev} evaluations")
        print(f"  {'':12}  {'fitted':>16}  {'certified':>16}  {'relative':>9}")
        for (name, certified), value in zip(CERTIFIED.items(), (*result.x, result.fun), strict=True):
            print(f"  {name:12}  {value:16.10e}  {certified:16.10e}  {value / certified - 1:9.1e}")
    return results


if __name__ == "__main__":
    main()
