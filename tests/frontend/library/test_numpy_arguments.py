"""Functions that bear NumPy's names take NumPy's arguments in NumPy's order, or refuse them."""

from __future__ import annotations

import numpy as np
import pytest
from judges.numpy_functions import VALUES, arguments, numpy_value, same

import adcompiler as adc

MEANT = """
np.max(m, 0); np.min(m, 1); np.max(c, (0, 1)); np.amax(m, 0); m.max(0); m.min(1); np.max(v, None)
np.linalg.norm(v, 1); np.linalg.norm(m, 2, 1); np.linalg.norm(v, np.inf); np.linalg.norm(m, -np.inf, 0)
np.linalg.norm(m, None, 1); np.linalg.norm(m, 'fro'); np.linalg.norm(m, ord=2, axis=0)
np.linalg.norm(m, 1, 1, True); np.sum(m, 0); np.prod(m, 1); np.mean(m, 0); np.var(m, 0); np.std(m, 1)
np.any(m > 0, 0); np.argmax(m, 0); m.argmin(1); np.trace(c); np.diagonal(c); np.diagonal(m, 1)
np.diag(w, 1); np.tril(m, -1); np.triu(m, 1); np.eye(4, 3, 1) @ w; np.cumsum(m, 0); np.cumprod(m, 1)
np.sort(m, 0); np.argsort(m, 0); np.diff(m, 1, 0); np.median(m, 0); np.quantile(m, 0.3, 0)
np.percentile(m, 30, 1); np.average(m, 0); np.average(m, 1, w); np.trapezoid(m, None, 0.5, 0)
np.roll(m, 1, 0); np.roll(m, (1, 2), (0, 1)); np.flip(m, (0, 1)); np.repeat(m, 2, 0); np.tile(v, (2, 1))
np.take(m, [0, 2], 1); np.clip(v, None, 1.0); np.clip(v, 0, None); v.clip(0.0, 1.0)
np.concatenate((m, m), 1); np.stack((m, m), -1); np.squeeze(m[:1]); np.squeeze(m[:, 1:2])
np.moveaxis(c, 0, 2); np.swapaxes(c, 0, 2); np.transpose(c, (1, 0, 2)); np.interp(v, np.sort(w), w)
np.searchsorted(np.sort(w), v, 'right'); np.pad(v, (1, 2), 'edge'); np.expand_dims(v, 0); np.inner(m, m)
np.tensordot(m, n, 1); np.tensordot(m, n, ((0,), (1,))); np.cov(m, None, False); np.convolve(v, w, 'valid')
np.full(5, 2.0) + v; np.arange(1, 11, 2) * v; np.linspace(0, 1, 5) * v; np.cross(w, w + 1)
np.reshape(m, (3, 4))
"""


@pytest.mark.thinned(4)
@pytest.mark.parametrize("line", MEANT.strip().splitlines())
def test_arguments_mean_what_they_mean_in_numpy(line: str) -> None:
    for source in line.split("; "):
        same(adc.compile(source, backend="numpy")(*arguments(source)), numpy_value(source))


@pytest.mark.thinned(9)
@pytest.mark.parametrize("source", ["norm(v, 1)", "norm(m, inf, 1)", "max(squeeze(m[:1])) * np.trace(c)"])
def test_derivatives(source: str) -> None:
    for backend in ("numpy", "cpu"):
        adc.check_grad(adc.compile(source, backend=backend), *arguments(source), order=2)


@pytest.mark.parametrize(
    ("source", "cause", "remedy"),
    [
        ("np.linalg.norm(m, v[0])", "no norm of this order", "as a number"),
        ("np.linalg.norm(v, v[0])", "no norm of this order", "sum(abs(x)**p)**(1 / p)"),
        ("np.concatenate((m, m), None)", "without an axis", "ravel"),
        ("np.min(v, 2 * v)", "np.min takes", "minimum(x, y)"),
    ],
)
def test_what_is_refused(source: str, cause: str, remedy: str) -> None:
    with pytest.raises(adc.Error, match=cause.replace("(", "\\(")) as caught:
        adc.compile(source)(*arguments(source))
    assert remedy in str(caught.value.remedy)


def test_a_slice_of_one_element_is_squeezed_unless_it_is_empty() -> None:
    f = adc.compile("squeeze(m[2:3])", backend="numpy")
    np.testing.assert_array_equal(f(VALUES["m"]), VALUES["m"][2])
    with pytest.raises(adc.ShapeError, match="squeeze: axis 0"):
        f(VALUES["m"][:2])
