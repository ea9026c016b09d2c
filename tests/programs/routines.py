"""Random programs of what is compiled from hand-written sources: routines on matrices and special functions.

All work on `A: f64[n, n]` (small beside 1), `B: f64[m, n, n]`, `x: f64[n]`, `t: f64[m]` and `w`. Matrices
that are factorised are far from singular, and arguments of special functions far from poles.
"""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from programs import Draw, Program

HEAD = """\
def turned(a, q):
    p = [[1.0, 0.0], [0.0, 1.0]]
    for j in range(len(q)):
        ca, sa = cos(a * q[j]), sin(a * q[j])
        p = [[ca, -sa * q[j]], [sa, ca]] @ p
    return p[0, 0] + 0.5 * p[1, 0] * p[0, 1]

def f(A: f64[n, n], B: f64[m, n, n], x: f64[n], t: f64[m], w):"""
MATRICES = (
    "(A + 3 * eye(n))",
    "(A * w - 4 * eye(n))",
    "(A @ A.T + eye(n))",
    "[[exp(-(x[i] - x[j])**2) + (2.0 + i if i == j else 0.0) for j in range(n)] for i in range(n)]",
    "(outer(x, x) + diag(2 + t[0] * x**2))",
)
SYMMETRIC = (*MATRICES[2:4], "(outer(x, x) + diag(arange(n) + 1.0))")
STACKS = ("(B + 3 * eye(n))", "(B * w - 4 * eye(n))", "[A * t[i] + 3 * eye(n) for i in range(m)]")
VECTORS = (
    "solve({M}, {v})",
    "{M} @ {v}",
    "solve_triangular(cholesky({S}), {v}, lower=True)",
    "diag(inv({M}))",
    "inv({M}) @ {v}",
    "sum(solve({T}, {v}), axis=0)",
    "eigvalsh({S})",
    "pinv({M}) @ {v}",
    "qr({M}, mode='r')[0] + svd({M}, compute_uv=False)",
    "expm({M} / 4) @ {v}",
    "lstsq({M}, {v})[0]",
    "eigh({S})[0] * {v}",
    "interp({v}, sort(x), x**2)",
    "quantile({M}, 0.3, axis=0) * {v}",
    "take({v}, searchsorted(sort(x), {v}), mode='clip')",
    "vstack(({v}, x))[1] * hstack((x, {v}))[:n]",
    "squeeze(moveaxis(B, 0, -1)[:, :1, :1], (1, 2)) * swapaxes({M}, 0, 1)[:, 0]",
    "broadcast_to({v}, (2, n))[1] + take_along_axis({M}, argsort({M}, axis=1), axis=1)[:, 0]",
    "zeros_like(x) + ones_like({v}) * {v}",
    "segment_sum({v}, arange(n) // 2, n) + bincount(arange(n) % 2 // n, {v}, minlength=n)",
    "average({M}, axis=0, weights=exp({v})) * trapezoid({M}, axis=0)",
    "np.diff(hstack((0.5, {v}))) + logaddexp({v}, x)",
    "{special}",
)
SPECIAL = (
    "lgamma(1.5 + {v}**2)",
    "digamma(0.5 + {v}**2)",
    "gamma(1 + {v}**2)",
    "trigamma(1 + {v}**2)",
    "erf({v})",
    "polygamma(2, 1 + {v}**2)",
    "beta(1 + {v}**2, 1.5)",
    "log_ndtr({v})",
    "erfcx({v})",
    "j0({v})",
    "jn(2, {v})",
    "i0e({v})",
    "ive(1, {v})",
    "erfinv(0.5 * tanh({v}))",
    "ndtri(0.5 + 0.3 * sin({v}))",
    "lbeta(2 + sin({v}), 1 + {v}**2)",
    "sinc({v})",
    "norm_hazard({v})",
    "gammainc(1.5 + w, {v}**2 + 0.2)",
    "gammaincc(1.2 + sin({v}), 0.5 + w)",
    "betainc(1 + {v}**2, 1.5, 0.5 + 0.4 * sin({v}))",
    "logcumsumexp({v})",
)
SCALARS = (
    "slogdet({M})[1]",
    "log(abs(det({M})))",
    "sum(log(diag(cholesky({S}))))",
    "x @ solve({S}, {v})",
    "sum(cov(B[0] + {M}, bias=True))",
    "sum(cross(hstack((x[0], t[0], w)), hstack((t[0], w, x[0]))) * t[0])",
    "trace(inv({M}))",
    "sum(det({T} / 4))",
    "sum(slogdet({T})[1] * t)",
    "sum(turned(u, {v}) for u in t)",
    "sum({special})",
    "logsumexp({v}) + sum({special})",
    "sum(lgamma(2 + sin(u * x[0])) for u in t)",
)
LOOPS = (
    ("for k in range(3):", "    v = tanh(solve({M}, v) + x)"),
    ("for k in range(m):", "    v = 0.5 * sin(B[k] @ v) + solve({M}, x) * t[k]"),
    ("for k in range(m):", "    s = s + lgamma(1.5 + s**2) * 0.1 * t[k]"),
    ("P = eye(n)", "for k in range(m):", "    P = 0.3 * B[k] @ P @ B[k].T + eye(n)", "s = s + slogdet(P)[1]"),
)


def filled(draw: Draw, text: str) -> str:
    """A template with matrices and a vector in its places."""
    pick = lambda options: str(draw(st.sampled_from(options)))  # noqa: E731
    if "{special}" in text:
        text = text.replace("{special}", pick(SPECIAL))
    return text.format(M=pick(MATRICES), S=pick(SYMMETRIC), T=pick(STACKS), v=pick(("v", "x", "tanh(v * w)")))


@st.composite
def routine_programs(draw: Draw) -> Program:
    """A def that returns a vector and a number, and arguments."""
    lines = ["v = x * 1.0", f"v = {filled(draw, draw(st.sampled_from(VECTORS)))}"]
    lines.append(f"s = {filled(draw, draw(st.sampled_from(SCALARS)))}")
    if draw(st.booleans()):
        lines += [filled(draw, line) for line in draw(st.sampled_from(LOOPS))]
    source = "\n    ".join([HEAD, *lines, "return v, s"])
    n, m = draw(st.sampled_from((1, 2, 3, 4, 7, 20))), draw(st.integers(1, 3))
    random = np.random.default_rng(draw(st.integers(0, 2**16)))
    A, B = random.uniform(-1, 1, (n, n)) / n, random.uniform(-1, 1, (m, n, n)) / n
    return Program(source, (A, B, random.uniform(-1, 1, n), random.uniform(0.5, 1, m), 0.8))
