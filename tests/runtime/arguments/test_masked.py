"""Masked arrays are refused wherever a value may stand: a conversion would drop the mask without a word."""

import numpy as np
import pytest

import adcompiler as adc

MASKED = np.ma.array([1.0, 2.0], mask=[True, False])
PLAIN = np.array([1.0, 2.0])
f = adc.compile("x * x")
total = adc.compile("sum(x * x)")

PLACES = {
    "a call": lambda m: f(m),
    "by name": lambda m: f(x=m),
    "into": lambda m: f.into(np.empty(2), m),
    "a buffer": lambda m: f.into(m, PLAIN),
    "one of several buffers": lambda m: adc.compile("x, 2 * x").into((np.empty(2), m), PLAIN),
    "grad": lambda m: adc.grad(total)(m),
    "vjp": lambda m: adc.vjp(f, m),
    "a cotangent": lambda m: adc.vjp(f, PLAIN)[1](m),
    "jvp": lambda m: adc.jvp(f, (m,), (PLAIN,)),
    "a tangent": lambda m: adc.jvp(f, (PLAIN,), (m,)),
    "hvp": lambda m: adc.hvp(total)((PLAIN,), m),
    "jacobian": lambda m: adc.jacobian(f)(m),
    "sparse": lambda m: adc.hessian(total, sparse=True)(m),
    "vmap": lambda m: adc.vmap(f)(m),
    "taylor": lambda m: adc.taylor(f, (PLAIN,), (m,), 2),
    "check_grad": lambda m: adc.check_grad(f, m),
    "split": lambda m: f.split().forward(m),
    "propagate": lambda m: (s := f.split()).propagate(s.forward(PLAIN)[1], m),
    "a pair": lambda m: f.forward(adc.DiffPair(m, PLAIN)),
    "a pair's tangent": lambda m: f.forward(adc.DiffPair(PLAIN, m)),
    "backward": lambda m: f.backward(m, PLAIN),
    "a result's cotangent": lambda m: f.backward(PLAIN, m),
    "contributions": lambda m: adc.compile("x * y").backward(
        adc.DiffPair(np.ones(1), accumulator="push"), PLAIN, m
    ),
    "a tuple": lambda m: adc.compile("def f(p):\n    return p[0]")((m, 1.0)),
    "a list": lambda m: adc.compile("def f(p):\n    return p[0]")([m, 1.0]),
    "a dict": lambda m: adc.compile('def f(p):\n    return p["x"]')({"x": m}),
    "a Variable": lambda m: adc.Variable(m),
    "a list of a Variable": lambda m: adc.Variable([m, m]),
    "a Variable's value": lambda m: setattr(adc.Variable(PLAIN), "value", m),
    "beside a Variable": lambda m: adc.Variable(PLAIN) + m,
    "before a Variable": lambda m: m + adc.Variable(PLAIN),
    "a factor of a Variable": lambda m: m * adc.Variable(PLAIN),
    "a power": lambda m: m ** adc.Variable(PLAIN),
    "a comparison": lambda m: m < adc.Variable(PLAIN),
    "in place": lambda m: m.__iadd__(adc.Variable(PLAIN)),
    "NumPy's function": lambda m: np.add(m, adc.Variable(PLAIN)),
    "NumPy's masked function": lambda m: np.ma.multiply(adc.Variable(PLAIN), m),
    "an index": lambda m: adc.Variable(PLAIN)[m.astype(int)],
    "a condition": lambda m: adc.tape.where(m > 1, adc.Variable(PLAIN), 0.0),
    "a branch": lambda m: adc.tape.where(PLAIN > 1, adc.Variable(PLAIN), m),
    "a seed": lambda m: adc.Variable(PLAIN, requires_grad=True).backward(m),
    "grad_outputs": lambda m: adc.tape.grad(f(v := adc.Variable(PLAIN)), v, m),
    "beside a Variable in a call": lambda m: adc.compile("x * y")(adc.Variable(PLAIN), m),
}


@pytest.mark.parametrize("mask", [[True, False], False])
@pytest.mark.parametrize("place", PLACES)
def test_masked_arrays_are_refused(place, mask):
    with pytest.raises(adc.DtypeError, match="masked") as caught:
        PLACES[place](np.ma.array([1.0, 2.0], mask=mask))
    assert "filled(0)" in caught.value.remedy


def test_the_masked_number_is_refused():
    with pytest.raises(adc.DtypeError, match="masked"):
        f(np.ma.masked)
    with pytest.raises(adc.DtypeError, match="masked"):
        adc.compile("sum(x)")([1.0, np.ma.masked])
