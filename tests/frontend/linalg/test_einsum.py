"""Sums of products by the letters of their axes, against NumPy; their derivatives by finite differences."""

from __future__ import annotations

import numpy as np
import pytest

import adcompiler as adc

LENGTHS = {"i": 3, "j": 4, "k": 2, "l": 5, "a": 2, "b": 3}
SPECS = [
    "ij,jk->ik",
    "ij,jk",
    "ba,ib",
    "ii",
    "ii->i",
    "ii->",
    "iij->j",
    "ijji->ij",
    "i,j->ij",
    "i,i",
    "ij->ji",
    "ij->",
    "ji",
    "ij,ij->",
    "ij,ji->i",
    "bij,bjk->bik",
    "ij,jk,kl->il",
    "ij,jk,kl,li->",
    "i,i,i->i",
    "i,j,k->kji",
    "ij,i,j->",
    "ijk,j->ik",
    " i j , j k -> i k ",
]


def operands(spec, random):
    groups = spec.replace(" ", "").partition("->")[0].split(",")
    return [random.normal(size=[LENGTHS[c] for c in g]) for g in groups]


def compiled(spec, count, backend="numpy"):
    names = ", ".join("xyzw"[:count])
    return adc.compile(f'einsum("{spec}", {names})', args=names, backend=backend)


def agrees(spec, args, backend="numpy"):
    found, expected = compiled(spec, len(args), backend)(*args), np.einsum(spec, *args)
    assert np.shape(found) == np.shape(expected)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.thinned(3)
@pytest.mark.parametrize("spec", SPECS)
def test_a_specification_means_what_it_means_in_numpy(spec):
    args = operands(spec, np.random.default_rng(len(spec)))
    agrees(spec, args)
    adc.check_grad(compiled(spec, len(args)), *args, order=2)


@pytest.mark.slow_when(lambda spec: spec == "ij,jk,kl->il")
@pytest.mark.parametrize("spec", ["ij,jk,kl->il", "bij,bjk->bik", "iij->j"])
def test_kernels_give_the_same(spec):
    args = operands(spec, np.random.default_rng(1))
    agrees(spec, args, "cpu")
    count = len(args)
    f = {b: adc.compile(f"sum({text(spec, count)}**2)", backend=b) for b in ("cpu", "numpy")}
    for one, other in zip(*(adc.vjp(g, *args)[1](1.0) for g in f.values()), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)


def text(spec, count):
    return f'einsum("{spec}", {", ".join("xyzw"[:count])})'


@pytest.mark.thinned(4)
@pytest.mark.parametrize(
    ("spec", "shapes"),
    [
        ("...ij,...jk->...ik", [(2, 3, 4), (2, 4, 2)]),
        ("...ij,...jk", [(5, 1, 3, 4), (2, 4, 2)]),
        ("...i,i", [(2, 3, 4), (4,)]),
        ("...ii->...i", [(2, 5, 3, 3)]),
        ("i...->...", [(3, 4)]),
        ("...", [(3, 4)]),
        ("ij,ij->", [(3, 4), (3, 1)]),
        ("i...j,j->...", [(3, 2, 4), (4,)]),
    ],
)
def test_ellipses_and_lengths_of_one_broadcast(spec, shapes):
    random = np.random.default_rng(3)
    args = [random.normal(size=s) for s in shapes]
    agrees(spec, args)
    adc.check_grad(compiled(spec, len(args)), *args, order=2)


@pytest.mark.thinned(4)
@pytest.mark.parametrize("seed", range(60))
def test_random_specifications(seed):
    """Any operands of any letters, explicit or implicit: the value is NumPy's, and the gradients obey
    the identity <G, dR> = Σ <Ḡ, dX>, where dR is known since the sum is linear in each operand."""
    random = np.random.default_rng(seed)
    letters = list(LENGTHS)
    groups = [
        "".join(random.choice(letters, size=random.integers(1, 4))) for _ in range(random.integers(1, 4))
    ]
    used = sorted(set("".join(groups)))
    output = "".join(random.permutation(used)[: random.integers(0, len(used) + 1)])
    spec = ",".join(groups) + ("->" + output if random.random() < 0.8 else "")
    args = operands(spec, random)
    agrees(spec, args)
    result, pullback = adc.vjp(compiled(spec, len(args)), *args)
    cotangent = random.normal(size=np.shape(result))
    ways = [random.normal(size=a.shape) for a in args]
    left = sum(
        np.sum(cotangent * np.einsum(spec, *args[:k], way, *args[k + 1 :])) for k, way in enumerate(ways)
    )
    right = sum(np.sum(g * w) for g, w in zip(pullback(cotangent), ways, strict=True))
    np.testing.assert_allclose(left, right, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(
    ("source", "kind", "cause"),
    [
        ('einsum("ij,jk", x, y)', adc.ShapeError, "the axis j: the lengths 4 .*axis 1 of x.* and 3"),
        ('einsum("ij", x, y)', adc.ParseError, "1 operands in 'ij', and 2 arrays"),
        ('einsum("ijk", x)', adc.ShapeError, "'ijk' names 3 axes of an array of rank 2"),
        ('einsum("i", x)', adc.ShapeError, "'i' names 1 axes of an array of rank 2"),
        ('einsum("ij->ik", x)', adc.ParseError, "'ik' names 'k', no operand's axis"),
        ('einsum("ij->ii", x)', adc.ParseError, "'ii' names an axis twice"),
        ('einsum("i1", x)', adc.ParseError, "'i1' is not a group of letters"),
        ("einsum(x, y)", adc.ParseError, "einsum takes a specification"),
    ],
)
def test_mistakes_are_named(source, kind, cause):
    with pytest.raises(kind, match=cause):
        adc.compile(source, backend="numpy")(*np.ones((2, 3, 4))[: source.count("x") + source.count("y")])


def test_lists_of_axes_instead_of_letters():
    m, n = np.arange(12.0).reshape(4, 3), np.ones((3, 2))
    for text in (
        "einsum(m, [0, 1], n, [1, 2], [0, 2])",
        "einsum(m, [1, 0], n, [0, 2])",
        "einsum(m, [0, 1], [1, 0])",
    ):
        f = adc.compile(f"np.{text}", backend="numpy")
        given = {"m": m, "n": n}
        expected = eval(f"np.{text}", {"np": np, **given})
        np.testing.assert_allclose(f(*(given[p.name] for p in f._parameters)), expected)
