"""What cells of the notebook "Simple Autograd" share: inputs, `simple`, `run_gradients`, differences."""

from __future__ import annotations

import numpy as np

from adcompiler import Variable, tape

A = np.array([0.4605, 0.4061, 0.9422, 0.3946])  # what the notebook drew for cells of two gradients
B = np.array([0.0850, 0.3296, 0.9888, 0.6494])
PRINTED = 1e-3  # it prints four digits of what it computed from four digits


def begin():
    tape.reset()
    return Variable(A, name="a"), Variable(B, name="b")


def near(found, expected, tolerance=PRINTED):
    for g, e in zip(found, expected, strict=True):
        np.testing.assert_allclose(g.value, e, rtol=tolerance, atol=tolerance)


def simple(a, b):
    t = a + b
    return t * b


def run_gradients(my_fn, second_loss=True, times_a=False):
    """The notebook's `run_gradients`; `times_a` adds the two characters of its exercise."""
    a, b = begin()
    L0 = (my_fn(a, b) * a if times_a else my_fn(a, b)).sum(name="L0")
    da, db = tape.grad(L0, [a, b], create_graph=True)
    if not second_loss:
        return da, db
    L1 = (da * da + db * db).sum(name="L1")
    return tape.grad(L1, [a, b])


def differences(f, second_loss=True, times_a=False, step=1e-5):
    """The same by finite differences of plain NumPy: two losses one inside of the other."""

    def loss(a, b):
        return float((f(a, b) * (a if times_a else 1.0)).sum())

    def slopes(g, a, b):
        found = []
        for k in range(2):
            one = []
            for i in range(4):
                shift = [np.zeros(4), np.zeros(4)]
                shift[k][i] = step if g is loss else 1e-4
                up, down = g(a + shift[0], b + shift[1]), g(a - shift[0], b - shift[1])
                one.append((up - down) / (2 * shift[k][i]))
            found.append(np.array(one))
        return found

    if not second_loss:
        return slopes(loss, A, B)
    return slopes(lambda a, b: sum(float((s * s).sum()) for s in slopes(loss, a, b)), A, B)


SECOND = [
    [1.2611, 2.1304, 5.8394, 3.3869],
    [2.6923, 4.9201, 13.6563, 8.0727],
]
