"""Guards of cotangents behind one stencil after another: gradients grow with their number, and stay right."""

from __future__ import annotations

import numpy as np
import pytest
from judges import growth

import adcompiler as adc
from adcompiler.ad.programs.split import value_and_grad

GRID = np.random.default_rng(0).uniform(0.5, 1.5, size=(6, 7))
STENCILS = {
    "linear": "0.25 * (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:])",
    "products": "u[:-2, 1:-1] * u[2:, 1:-1] - u[1:-1, :-2] * u[1:-1, 2:]",
    "functions": "sin(u[:-2, 1:-1] + u[2:, 1:-1]) + u[1:-1, :-2] * u[1:-1, 2:]",
}


def swept(stencil: str, count: int) -> str:
    """A program that computes the inner points of a grid anew, several times."""
    line = f"    u[1:-1, 1:-1] = {STENCILS.get(stencil, stencil)}\n"
    return f"def f(u: f64[n, m]):\n    u = 1 * u\n{line * count}    return sum(u * u * u)\n"


def check(source: str, grid: np.ndarray) -> None:
    """The gradient agrees with differences."""
    f = adc.compile(source, backend="numpy")
    gradient = adc.grad(f)(grid)
    direction = np.random.default_rng(1).normal(size=grid.shape)
    slope = (f(grid + 1e-6 * direction) - f(grid - 1e-6 * direction)) / 2e-6
    assert np.sum(gradient * direction) == pytest.approx(slope, rel=1e-6, abs=1e-8)
    assert adc.jvp(f, (grid,), (direction,))[1] == pytest.approx(slope, rel=1e-6, abs=1e-8)


@pytest.mark.parametrize("count", [1, 3, 4])
@pytest.mark.parametrize("stencil", STENCILS)
def test_gradients_of_sweeps(stencil: str, count: int) -> None:
    check(swept(stencil, count), GRID)


@pytest.mark.parametrize("shape", [(0, 0), (1, 4), (2, 2), (3, 3)])
def test_grids_with_few_inner_points(shape: tuple[int, int]) -> None:
    check(swept("products", 3), GRID[: shape[0], : shape[1]])


@pytest.mark.parametrize("count", [2, 3, 4])
def test_zeros_on_the_border_stay_outside_of_derivatives(count: int) -> None:
    """The derivative of a root is infinite at 0, which no inner point reads."""
    line = "    u[1:-1, 1:-1] = sqrt(u[1:-1, 1:-1]) * (1 + u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, 2:])\n"
    source = f"def f(u: f64[n, m]):\n    u = 1 * u\n{line * count}    return sum(u)\n"
    grid = np.zeros((5, 6))
    grid[1:-1, 1:-1] = GRID[1:4, 1:5]
    f = adc.compile(source, backend="numpy")
    gradient = adc.grad(f)(grid)
    assert np.isfinite(gradient).all()
    inner = np.zeros_like(grid)
    inner[1:-1, 1:-1] = np.random.default_rng(2).normal(size=(3, 4))
    slope = (f(grid + 1e-7 * inner) - f(grid - 1e-7 * inner)) / 2e-7
    assert np.sum(gradient * inner) == pytest.approx(slope, rel=1e-5)


@pytest.mark.parametrize("stencil", STENCILS)
def test_reverse_mode_makes_nodes_in_proportion_to_the_sweeps(stencil: str) -> None:
    def nodes(count: int) -> int:
        f = adc.compile(swept(stencil, count))
        types, *_ = f._describe([GRID])
        return growth.nodes(value_and_grad(f._trace(types).func, [0], True))

    assert growth.excess([nodes(4), nodes(8), nodes(16)]) < 1.2
