"""Lists of equal structs as arguments: one struct of arrays in the program, a list of structs outside."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.testing import assert_allclose

import adcompiler as adc

RANDOM = np.random.default_rng(3)


@dataclass
class Particle:
    pos: Any
    mass: Any


class Pair(NamedTuple):
    pos: Any
    mass: Any


ENERGY = """
def energy(ps, g):
    kinetic = 0.0
    for p in ps:
        kinetic = kinetic + p.mass * sum(p.pos**2)
    return kinetic + g * sum(
        ps[i].mass * ps[j].mass / sqrt(sum((ps[i].pos - ps[j].pos)**2) + 0.1)
        for i in range(len(ps)) for j in range(i))
"""
FLAT = """
def energy(pos, mass, g):
    return sum(mass * sum(pos**2, axis=1)) + g * sum(
        mass[i] * mass[j] / sqrt(sum((pos[i] - pos[j])**2) + 0.1)
        for i in range(len(mass)) for j in range(i))
"""
energy, flat = adc.compile(ENERGY), adc.compile(FLAT)


def swarm(count: int, make: Any = Particle, kind: Any = float) -> list[Any]:
    """Some particles in a plane."""
    positions, masses = RANDOM.normal(size=(count, 2)), RANDOM.uniform(1, 2, count)
    return [make(p.astype(kind), kind(m)) for p, m in zip(positions, masses, strict=True)]


def arrays(ps: Any) -> tuple[np.ndarray, np.ndarray]:
    """The same particles as two arrays."""
    return np.array([p.pos for p in ps]), np.array([p.mass for p in ps])


@pytest.mark.parametrize("make", [Particle, Pair])
@pytest.mark.parametrize("count", [2, 8, 9, 32])
def test_the_same_values_and_gradients_as_of_arrays(count, make):
    ps = swarm(count, make)
    pos, mass = arrays(ps)
    value, (grads, dg) = adc.value_and_grad(energy)(ps, 0.5)
    expected, (dpos, dmass, dg_expected) = adc.value_and_grad(flat)(pos, mass, 0.5)
    assert_allclose(value, expected)
    assert_allclose(dg, dg_expected)
    assert type(grads) is list
    assert all(type(g) is make for g in grads)
    assert_allclose(arrays(grads)[0], dpos)
    assert_allclose(arrays(grads)[1], dmass)
    assert type(grads[0].mass) is float


def test_a_list_is_a_loop_and_any_length_is_the_same_program():
    f = adc.compile("def f(ps):\n    return sum(p.mass * sum(p.pos) for p in ps)")
    f(swarm(20))
    text = f.show("ir")
    assert text.count("reduce") <= 2
    assert "ps[:].pos" in text
    f(swarm(2000))
    assert len(f._programs) == 1


@pytest.mark.thinned(2)
@pytest.mark.parametrize("count", [5, 12])
def test_second_order(count):
    ps = swarm(count)
    pos, mass = arrays(ps)
    assert adc.check_grad(energy, ps, 0.5, order=1) < 1e-6
    blocks = adc.hessian(energy, "ps")(ps, 0.5)
    expected = adc.hessian(flat, ("pos", "mass"))(pos, mass, 0.5)
    assert_allclose(blocks[1].pos[3].pos, expected[0][0][1, :, 3, :])
    assert_allclose(blocks[4].mass[2].pos, expected[1][0][4, 2])
    assert_allclose(blocks[4].mass[2].mass, expected[1][1][4, 2])
    direction = [Particle(np.ones(2), 1.0)] + [None] * (count - 1)
    along = adc.hvp(energy, "ps")((ps, 0.5), direction)
    assert_allclose(along[2].mass, expected[1][0][2, 0].sum() + expected[1][1][2, 0])


def test_float32_stays_float32():
    ps = swarm(12, kind=np.float32)
    grads = adc.grad(energy, "ps")(ps, 1.0)
    assert (type(energy(ps, 1.0)), grads[0].pos.dtype, type(grads[0].mass)) == (
        np.float32, np.float32, np.float32,
    )  # fmt: skip
    assert_allclose(arrays(grads)[0], adc.grad(flat, "pos")(*arrays(ps), 1.0), rtol=1e-4)


def test_python_numbers_are_weak_as_they_are_alone():
    f = adc.compile("def f(ps, x):\n    return sum(p.mass for p in ps) * x")
    ps = [Particle(np.ones(1), 2.0) for _ in range(12)]
    assert f(ps, np.ones(3, np.float32)).dtype == np.float32
    assert type(adc.compile("def f(t):\n    return sum(a * b for a, b in t)")([(1, 2)] * 12)) is float


def test_tuples_dicts_and_lists_in_lists():
    groups = tuple({"ps": swarm(10), "weight": 1.0 + k} for k in range(11))
    f = adc.compile(
        'def f(groups):\n    return sum(g["weight"] * sum(p.mass**2 for p in g["ps"]) for g in groups)'
    )
    assert_allclose(f(groups), sum(g["weight"] * sum(p.mass**2 for p in g["ps"]) for g in groups))
    grads = adc.grad(f)(groups)
    assert type(grads) is tuple
    assert_allclose(grads[3]["ps"][7].mass, 2 * groups[3]["weight"] * groups[3]["ps"][7].mass)
    blocks = adc.hessian(f)(groups)
    assert_allclose(blocks[3]["ps"][7].mass[3]["weight"], 2 * groups[3]["ps"][7].mass)


def test_enumerate_zip_slices_and_unpacking_of_items():
    pairs = [(float(k), RANDOM.normal(size=2)) for k in range(12)]
    f = adc.compile(
        "def f(pairs, w):\n"
        "    s = pairs[-1][0]\n"
        "    for k, pair in enumerate(pairs[2:]):\n"
        "        s = s + k * pair[0] * sum(pair[1])\n"
        "    return s + sum(pair[0] * v for pair, v in zip(pairs, w))"
    )
    w = RANDOM.normal(size=12)
    expected = pairs[-1][0] + sum(k * m * x.sum() for k, (m, x) in enumerate(pairs[2:]))
    assert_allclose(f(pairs, w), expected + sum(m * v for (m, _), v in zip(pairs, w, strict=True)))
    assert adc.check_grad(f, pairs, w) < 1e-6


def test_what_needs_the_items_one_by_one_has_them():
    names = ", ".join(f"p{k}" for k in range(10))
    f = adc.compile(f"def f(ps):\n    {names} = ps\n    return p0.mass * p9.mass")
    ps = swarm(10)
    grads = adc.grad(f)(ps)
    assert_allclose(grads[9].mass, ps[0].mass)
    assert grads[5].mass == 0


def test_items_of_different_shapes_are_arguments_of_their_own():
    ps = [Particle(np.ones(2 + k % 2), 1.0) for k in range(10)]
    f = adc.compile("def f(ps):\n    return sum(p.mass * sum(p.pos) for p in ps)")
    assert_allclose(f(ps), 25.0)
    assert adc.grad(f)(ps)[1].pos.shape == (3,)
    with pytest.raises(adc.ShapeError, match=r"ps\[:\].pos have shapes \(2,\), \(3,\)"):
        energy(ps, 1.0)


def test_whole_numbers_in_some_items_are_floats():
    f = adc.compile('def f(items):\n    return sum(sum(i["x"]) * i["k"] for i in items)')
    assert f([{"x": [1, 2], "k": 1}, {"x": [0.5, 2], "k": 2.0}] * 6) == 48.0


def test_texts_and_none_are_the_same_in_all_items():
    f = adc.compile(
        'def f(items):\n    return sum(i["x"]**2 if i["kind"] == "square" else i["x"] for i in items)'
    )
    squares = [{"kind": "square", "x": 3.0}] * 12
    assert f(squares) == 108.0
    assert adc.grad(f)(squares)[0] == {"kind": None, "x": 6.0}
    assert f([*squares, {"kind": "plain", "x": 3.0}]) == 111.0


def test_tangents_cotangents_and_pullbacks_nest_as_the_list_does():
    f = adc.compile("def f(ps):\n    return [p.mass * p.pos[0] for p in ps]")
    ps = swarm(10)
    _, tangent = adc.jvp(f, ([*ps],), ([Particle(np.ones(2), None), *[None] * 9],))
    assert_allclose(tangent, [ps[0].mass, *[0] * 9])
    assert_allclose(adc.jvp(f, (ps,), ([None] * 10,))[1], np.zeros(10))
    _, pull = adc.vjp(f, ps)
    (back,) = pull(np.arange(10.0))
    assert_allclose(back[3].pos, [3 * ps[3].mass, 0])
    assert adc.jacobian(f)(ps)[3].pos.shape == (10, 2)
    (pair := adc.DiffPair(ps)) and f.backward(pair, np.ones(10))
    assert_allclose(pair.d[4].mass, ps[4].pos[0])


def test_lists_are_results_and_are_batched():
    f = adc.compile("def f(ps):\n    return ps[1:], len(ps)")
    ps = swarm(10)
    rest, count = f(ps)
    assert (len(rest), count, type(rest[0])) == (9, 10, Particle)
    assert_allclose(rest[0].pos, ps[1].pos)
    total = adc.compile("def total(ps):\n    return sum(p.mass * sum(p.pos) for p in ps)")
    cases = [Particle(RANDOM.normal(size=(7, 2)), RANDOM.normal(size=7)) for _ in range(11)]
    assert_allclose(adc.vmap(total)(cases), sum(p.mass * p.pos.sum(1) for p in cases))
    grads = adc.vmap(adc.grad(total))(cases)
    assert len(grads) == 11
    assert_allclose(grads[3].mass, cases[3].pos.sum(1))


def test_variables_in_structs_have_gradients_of_both_orders():
    ps = swarm(10)
    held = [Particle(adc.Variable(p.pos, requires_grad=True), p.mass) for p in ps[:-1]]
    last = adc.Variable(ps[-1].mass, requires_grad=True)
    held.append(Particle(ps[-1].pos, last))
    value = energy(held, 0.5)
    (slope,) = adc.tape.grad(value, [last], create_graph=True)
    assert_allclose(slope.value, adc.grad(energy, "ps")(ps, 0.5)[-1].mass)
    (again,) = adc.tape.grad(slope, [held[2].pos])
    assert_allclose(again.value, adc.hessian(energy, "ps")(ps, 0.5)[-1].mass[2].pos)
    energy(held, 0.5).backward()
    assert_allclose(held[4].pos.grad.value, adc.grad(energy, "ps")(ps, 0.5)[4].pos)


def test_a_list_has_no_fields():
    f = adc.compile("def f(ps):\n    return sum(ps.mass)")
    with pytest.raises(adc.ParseError, match="a list has no field 'mass'"):
        f(swarm(12))
