"""`save=`: what forward keeps for propagate is the user's choice, and no gradient depends on it."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from judges.compared import leaves
from programs import written_loops as loopprograms

import adcompiler as adc
from adcompiler.ad.programs.mincut import READ, WRITE, _size, _work, cheapest
from adcompiler.ad.programs.split import split
from adcompiler.interpreter.reference import length
from adcompiler.ir.nodes import Input
from adcompiler.ir.walk import arrays_of, arrays_read

CHAIN = """
def chain(a, b):
    u = exp(a) * a
    t = sin(u + b)
    s = sum(t * t)
    return s * t
"""
A, B = np.linspace(0.1, 0.9, 5), np.linspace(-0.5, 0.7, 5)


def pulled(f, *args):
    """The value of `f`, and its cotangents for a fixed cotangent of the value."""
    value, pullback = adc.vjp(f, *args)
    seeds = tuple(np.cos(np.arange(np.size(v))).reshape(np.shape(v)) for v in leaves(value))
    return value, pullback(seeds if isinstance(value, tuple) else seeds[0])


@pytest.mark.thinned(3)
@pytest.mark.parametrize("save", ["auto", [], ["u"], ["t", "s"], ["t0"], ["a", "t1"]])
@pytest.mark.parametrize("backend", ["numpy", "cpu"])
def test_a_choice_changes_no_gradient(save, backend):
    value, expected = pulled(adc.compile(CHAIN, backend=backend), A, B)
    got = pulled(adc.compile(CHAIN, backend=backend, save=save), A, B)
    np.testing.assert_allclose(got[0], value, rtol=1e-14)
    np.testing.assert_allclose(got[1], expected, rtol=1e-14)


@pytest.mark.thinned(12)
@pytest.mark.parametrize("name", loopprograms.SOURCES)
@pytest.mark.parametrize("save", ["auto", []])
def test_programs_with_loops(name, save):
    source, args = loopprograms.SOURCES[name]
    value, expected = pulled(adc.compile(source, backend="numpy"), *args)
    got = pulled(adc.compile(source, backend="numpy", save=save), *args)
    for x, y in zip(leaves(got[0]), leaves(value), strict=True):
        np.testing.assert_array_equal(x, y)
    for x, y in zip(got[1], expected, strict=True):
        assert (x is None) == (y is None)
        if x is not None:
            np.testing.assert_allclose(x, y, rtol=1e-12, atol=1e-12)


def test_what_is_named_is_saved_and_nothing_else():
    f = adc.compile(CHAIN)
    assert f.split().forward(A, B)[1].names == ("a", "t0", "t1", "t", "s")
    assert f.split(save=["u"]).forward(A, B)[1].names == ("a", "b", "u")
    assert f.split(save=["t0", "t1", "t", "s"]).forward(A, B)[1].names == ("a", "t0", "t1", "t", "s")
    assert f.split(save=[]).forward(A, B)[1].names == ("a", "b")
    # What propagate does not read is not saved, though it has a name.
    assert f.split(wrt="b", save=["u", "t0", "t", "s"]).forward(A, B)[1].names == ("t0", "t", "s")


@pytest.mark.slow
def test_a_saved_temporary_receives_a_cotangent():
    """As in the notebook: so that derivatives of higher order are right, whatever is saved."""
    for save in ("partials", "auto", ["u"], []):
        f = adc.compile(CHAIN, save=save)
        x = adc.Variable(A, requires_grad=True)
        (first,) = adc.tape.grad(f(x, B), [x], create_graph=True)
        (second,) = adc.tape.grad(first, [x])
        expected = np.asarray(adc.hessian(adc.compile(CHAIN.replace("s * t", "sum(s * t)")), "a")(A, B))
        np.testing.assert_allclose(second.data, expected.sum(0), rtol=1e-12)


def test_a_product_is_saved_where_work_outweighs_bytes():
    f = adc.compile("sum(tanh(x @ y)**2)", save="auto")
    rng = np.random.default_rng(0)
    large = rng.normal(size=(2, 200, 200))
    assert "(320 kB in the first call)" not in f.explain(None, *large)
    f.split().forward(*large)
    text = f.explain()
    assert "bytes (320 kB in the first call)" in text
    assert "temporary" in text.split("computed again")[0]
    small = adc.compile("sum(tanh(x @ y)**2)", save="auto")
    thin = rng.normal(size=(2, 2, 2))
    assert small.split().forward(*thin)[1].names == ("x", "y")


def test_elementwise_work_is_done_again():
    f = adc.compile("sum(exp(sin(x) * y))", save="auto")
    assert f.split().forward(A, B)[1].names == ("x", "y")
    assert f.split(save="partials").forward(A, B)[1].names != ("x", "y")


def test_the_cut_is_a_minimum():
    """Against all choices: what is saved costs its bytes, all else that is needed costs its work."""
    source = """
def f(a, w):
    p = w @ tanh(w @ a)
    q = exp(p) * a
    r = w @ q
    return sum(r * r * q)
"""
    for n in (2, 4, 12, 60, 400):
        func = adc.compile(source)._trace(adc.compile(source)._describe((A[:2], np.eye(2)), {})[0]).func
        made = split(func, (0, 1))
        values = (*made.forward.inputs, *made.forward.results)
        needed = [values[k] for k in made.propagate(made.usual, made.all_asked).reads]

        def at(size, n=n, func=func):
            return length(size, [n] * len(func.size_names))

        given = set(made.forward.results[: made.count])
        candidates = [a for a in arrays_of(needed) if not isinstance(a, Input) and a not in given]
        best = min(
            _cost(needed, set(chosen), given, at)
            for k in range(len(candidates) + 1)
            for chosen in combinations(candidates, k)
        )
        found = cheapest(made.forward, made.count, needed, at)
        assert _cost(needed, set(found), given, at) <= best * (1 + 1e-6)


def _cost(needed, saved, given, at):
    total, work, seen = 0.0, list(needed), set()
    while work:
        array = work.pop()
        if array in seen:
            continue
        seen.add(array)
        if isinstance(array, Input):
            continue
        if array in saved:
            total += (READ + WRITE) * _size(array, at)
        elif array in given and READ * _size(array, at) < _work(array, at):
            total += READ * _size(array, at)
        else:
            total += _work(array, at)
            work.extend(arrays_read(array))
    return total


def test_mistakes_are_told():
    f = adc.compile(CHAIN)
    with pytest.raises(adc.Error, match=r"no value 'z' to save in chain.*\n.*u.*t0"):
        f.split(save=["z"]).forward(A, B)
    for wrong in ("everything", 3, [1], None):
        with pytest.raises(adc.Error, match="is not a choice of values to save"):
            adc.compile(CHAIN, save=wrong)
    with pytest.raises(adc.Error, match="is not a choice of values to save"):
        f.split(save="t")


@pytest.mark.parametrize("source", ["x + 2 * y", "sum(sign(x)) + y[0]", "0.5 + 0 * z"])
def test_a_propagate_that_needs_nothing(source):
    """Nothing is saved for constant derivatives, whoever chooses."""
    args = [np.ones(3) for _ in adc.compile(source)._parameters]
    for backend in ("cpu", "numpy"):
        plain = adc.compile(source, backend=backend).split()
        chosen = adc.compile(source, backend=backend, save="auto").split()
        value, saved = chosen.forward(*args)
        expected = plain.propagate(plain.forward(*args)[1], np.ones_like(value))
        for found, wanted in zip(chosen.propagate(saved, np.ones_like(value)), expected, strict=True):
            np.testing.assert_array_equal(found, wanted)
