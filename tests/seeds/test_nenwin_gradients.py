"""The logbook of Nenwin (seeds 000 and 001) up to 05-03, entry by entry: gradients that are None.

What its author tried, and what he meets here. test_nenwin_training.py has the rest.
"""

from __future__ import annotations

import copy

import numpy as np
import pytest

import adcompiler as adc
from adcompiler import Parameter, Variable, tape
from tests.seeds.particles import particle

# -- 13-02: "they just remain None" ------------------------------------------------------------


def test_being_a_parameter_is_not_the_problem():
    """First observation: it makes no difference to a gradient that the leaf is a Parameter."""
    for kind in (Parameter, lambda v: Variable(v, requires_grad=True)):
        pos = kind([1.0, 2.0])
        (pos * pos).sum().backward()
        np.testing.assert_array_equal(pos.grad.value, [2.0, 4.0])


def test_the_initial_position_is_optimised_and_not_the_position():
    """15-02, "I forgot that": .init_pos has a gradient; .pos warns that it was computed."""
    p = particle()
    p.update_movement(2.0)
    (p.pos * [1.0, 3.0]).sum().backward()
    np.testing.assert_array_equal(p.init_pos.grad.value, [1.0, 3.0])
    np.testing.assert_array_equal(p.init_vel.grad.value, [2.0, 6.0])
    np.testing.assert_allclose(p.init_acc.grad.value, [2.0, 6.0])  # half of 2.0**2, times the weights
    with pytest.warns(UserWarning, match=r"not a leaf: it was computed(.|\n)*leaf it was computed from"):
        assert p.pos.grad is None


def test_a_working_mass_collects_nothing_and_the_mass_does():
    """15-02: "I do not understand this behavior". The warning at the working mass explains it."""
    mass = Parameter(2.0, name="mass")
    working_mass = 1 * mass
    (working_mass * working_mass).backward()
    assert mass.grad.item() == 4.0
    with pytest.warns(UserWarning, match=r"not a leaf: it was computed(.|\n)*retain_grad\(\)"):
        assert working_mass.grad is None


# -- 16-02: the question on the forum ----------------------------------------------------------


class MyModule:
    def __init__(self):
        self.__my_parameter = Parameter([1.0], name="my_parameter")

    @property
    def my_parameter(self):
        return self.__my_parameter.clone()


def test_the_gradient_of_a_property_that_clones():
    """It printed `tensor([1.]) None`: here the None comes with its reason."""
    v, my_module = Variable([1.0], requires_grad=True), MyModule()
    loss = np.sum(v.clone() + my_module.my_parameter)
    loss.backward()
    assert v.grad.value.tolist() == [1.0]
    with pytest.warns(
        UserWarning, match=r"computed(.|\n)*\.clone\(\)(.|\n)*read \.grad of the leaf .*: my_parameter"
    ):
        assert my_module.my_parameter.grad is None


def test_the_gradient_of_the_parameter_itself():
    """On "It works when writing instead" the name of the private attribute."""
    v, my_module = Variable([1.0], requires_grad=True), MyModule()
    np.sum(v.clone() + my_module.my_parameter).backward()
    assert my_module._MyModule__my_parameter.grad.value.tolist() == [1.0]
    (found,) = adc.parameters(my_module)
    assert found is my_module._MyModule__my_parameter


def test_the_property_that_does_not_clone():
    """What the author had wanted to write: a property of the Parameter itself has its gradient."""

    class Direct(MyModule):
        @property
        def my_parameter(self):
            return self._MyModule__my_parameter

    my_module = Direct()
    np.sum(my_module.my_parameter * 3.0).backward()
    assert my_module.my_parameter.grad.value.tolist() == [3.0]


# -- 16-02: the emitter ------------------------------------------------------------------------


def emitted_mass():
    stored, prototype = Parameter(3.0, name="stored_mass"), Parameter(2.0, name="prototype_mass")
    return stored, prototype, (stored / stored.item()) * prototype.item()


def test_the_expression_of_the_emitted_mass():
    """It "does seem to have the correct graph" for the stored mass; .item() cuts the prototype's off."""
    stored, prototype, mass = emitted_mass()
    d_stored, d_prototype = tape.grad(mass, [stored, prototype])
    assert mass.item() == 2.0
    assert d_stored.item() == pytest.approx(2.0 / 3.0)
    assert d_prototype is None


def test_why_the_prototypes_mass_has_none():
    """The question torchviz was asked: where does the way from the mass to the prototype end?"""
    _, prototype, mass = emitted_mass()
    text = adc.why_none(mass, prototype)
    assert ".item()" in text
    assert "emitted_mass" in text or "prototype.item()" in text
    assert "test_nenwin_gradients.py" in text


def test_a_picture_in_place_of_torchviz():
    """On "Using torchviz, it becomes clear": names, gradients, and what was cut where."""
    tape.reset()
    _, _, mass = emitted_mass()
    (mass * 2.0).backward(retain_graph=True)
    picture = tape.draw(mass)
    assert "stored_mass / 3.0" in picture
    assert "grad: 1.33333" in picture
    assert "cut: .item() of prototype_mass, test_nenwin_gradients.py" in picture


def test_the_graph_as_lines_of_text(capsys):
    """What there was already: the operations that are held, oldest first."""
    tape.reset()
    *_, mass = emitted_mass()
    tape.show()
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].endswith("= stored_mass / 3.0")
    assert lines[-1].startswith(f"{mass.name} = ")


# -- 16-02 to 17-02: "the copy() method discards the computational graph!" ---------------------


def test_a_parameter_around_a_parameter_is_refused():
    """nn.Parameter(input) silently began another graph: "found where it goed wrong"."""
    a = Parameter(1.0, name="a")
    for given in (a, a.clone(), 2.0 * a):
        with pytest.raises(adc.GraphError, match=r"requires a gradient(.|\n)*Parameter(.|\n)*help: ."):
            Parameter(given)
    with pytest.raises(adc.GraphError, match=r"a is a Variable already(.|\n)*clone\(\) keeps the graph"):
        Variable(a)


def test_copies_keep_the_graph_or_are_refused():
    """copy.copy keeps it; copy.deepcopy of what was computed would not, and says so."""
    a = Parameter(3.0, name="a")
    shallow = copy.copy(2.0 * a)
    assert tape.grad(shallow * shallow, a).item() == 24.0
    with pytest.raises(adc.GraphError, match=r"would lose its graph(.|\n)*clone\(\)(.|\n)*detach\(\)"):
        copy.deepcopy(2.0 * a)


class Marble:
    """A particle of which only the mass is of interest; `adopt_parameters` shares it with a copy."""

    def __init__(self, mass):
        self.mass = Parameter(mass, name="mass")

    def copy(self):
        return Marble(self.mass.item())

    def adopt_parameters(self, source):
        self.mass = source.mass
        return self


def test_a_copy_shares_no_gradient():
    """17-02: allclose of both gradients "should print True but raises an error"; ours says which is None."""
    v, some_marble = Variable([1.0], requires_grad=True), Marble(10.0)
    np.sum(v + some_marble.mass).backward()
    another_marble = some_marble.copy()
    assert some_marble.mass.grad.item() == 1.0
    with pytest.raises(adc.Error, match=r"None(.|\n)*zero or not computed yet"):
        np.allclose(some_marble.mass.grad, another_marble.mass.grad)


def test_a_copy_that_adopts_parameters_shares_them():
    """The author's solution of 19-02: references to the initial values, so that gradients flow back."""
    v, some_marble = Variable([1.0], requires_grad=True), Marble(10.0)
    another_marble = some_marble.copy().adopt_parameters(some_marble)
    np.sum(v + another_marble.mass).backward()
    assert np.allclose(some_marble.mass.grad, another_marble.mass.grad)
    assert some_marble.mass.grad.item() == 1.0


def test_why_a_copy_has_none():
    """The copy was made of `.item()`: the message has the line of the new Parameter, and what to write."""
    some_marble = Marble(10.0)
    loss = 2.0 * some_marble.copy().mass
    text = adc.why_none(loss, some_marble.mass)
    assert "a new Variable cuts the path" in text
    assert 'self.mass = Parameter(mass, name="mass")' in text
    assert "use the Variable itself" in text


def test_why_another_object_of_the_same_value_has_none():
    """Where only the equal value tells that the other one was meant, the message says "perhaps"."""
    loss = 2.0 * Marble(10.5).mass
    assert "perhaps" in adc.why_none(loss, Marble(10.5).mass)


# -- 19-02: "a simple fix", and "wait a moment" ------------------------------------------------


def test_the_simple_fix_is_refused_where_it_begins():
    """output = nn.Parameter(input.clone()); output.grad = input.grad: "basically cheating"."""
    a = Variable([1.0], requires_grad=True, name="a")
    with pytest.raises(adc.GraphError, match=r"Parameter is a new leaf(.|\n)*retain_grad\(\)"):
        Parameter(a.clone())
    with pytest.raises(adc.GraphError, match=r"no gradient would flow back(.|\n)*the same object"):
        Parameter(a)


def test_copying_a_gradient_links_nothing():
    """The illustration: b.backward() gives b.grad 1 and leaves a.grad None, with the cheat spelled out."""
    a = Variable([1.0], requires_grad=True, name="a")
    b = Parameter(a.value, name="b")
    b.grad = a.grad
    loss = Variable([2.0]) * b
    b.backward()
    assert b.grad.value.tolist() == [1.0]
    with pytest.warns(
        UserWarning, match=r"\.grad of a is None after backward(.|\n)*a new Variable(.|\n)*clone"
    ):
        assert a.grad is None
    assert tape.grad(loss, [b, a])[1] is None


def test_the_dependency_itself_is_kept_by_clone():
    """On "`grad_fn` needs to be copied instead? But that is not possible": clone() does it."""
    a = Variable([1.0], requires_grad=True)
    b = a.clone()
    (Variable([2.0]) * b).backward()
    assert a.grad.value.tolist() == [2.0]
    with pytest.raises(AttributeError, match=r"adc\.tape"):
        b.grad_fn  # noqa: B018


def test_a_test_case_that_cannot_be_cheated():
    """On "Using bad testcases in the first place": finite differences know nothing of graphs."""

    def loss(pos, vel):
        p = pos + 0.5 * vel
        return (p * p).sum() * vel[0]

    assert tape.check(loss, [1.0, 2.0], [0.3, -0.4]) < 1e-5

    def cheated(pos, vel):
        return loss(Variable(pos.value), vel)

    with pytest.raises(
        adc.GradientError, match=r"with respect to input 0(.|\n)*cuts the graph.*new Variable"
    ):
        tape.check(cheated, [1.0, 2.0], [0.3, -0.4])


# -- 22-02: the radius -------------------------------------------------------------------------


def eaten(distance, radius):
    return (distance < radius).sum()


def test_a_radius_that_is_only_compared_has_no_gradient():
    """On "No way for it to collect gradients": a count is a plain number, and the message says that it is."""
    distance, radius = Variable([1.0, 3.0]), Parameter(2.0, name="radius")
    with pytest.raises(adc.DtypeError, match=r"int64(.|\n)*[Cc]omparison"):
        tape.grad(eaten(distance, radius), radius)


def test_why_a_compared_radius_has_none_in_a_compiled_function():
    """The same in a compiled function: zero, with the reason."""
    count = adc.compile("sum(where(distance < radius, 1.0, 0.0))", args="distance, radius")
    assert adc.grad(count, "radius")(np.array([1.0, 3.0]), 2.0) == 0.0
    assert "radius" in count.explain("radius")


def test_f_why_none_names_the_comparison():
    count = adc.compile("sum(where(distance < radius, 1.0, 0.0))", args="distance, radius")
    text = count.why_none("radius")
    assert "distance < radius" in text


def test_a_radius_with_a_soft_edge_learns():
    """On "Something to add later": a sigmoid in place of the comparison, checked to second order."""
    soft = adc.compile("sum(sigmoid((radius - distance) / 0.1))", args="distance, radius")
    adc.check_grad(soft, np.array([1.9, 2.2]), 2.0, order=2)


# -- 27-02 and 05-03: the mass of an emitted marble --------------------------------------------


def test_a_computed_mass_is_a_variable_and_no_parameter():
    """Both "a Parameter" and "propagates back" are not to be had: it is no leaf, and needs not be trained."""
    stored, prototype = Parameter(3.0), Parameter(2.0)
    mass = stored * prototype
    assert not isinstance(mass, Parameter)
    assert not mass.is_leaf
    (mass * mass).backward()
    assert (stored.grad.item(), prototype.grad.item()) == (24.0, 36.0)


def test_a_parameter_is_removed_with_del():
    """On "Registered Parameters can be removed from a module simply with del"."""
    marble = Marble(10.0)
    assert len(adc.parameters(marble)) == 1
    del marble.mass
    assert adc.parameters(marble) == []


def test_the_mass_of_an_emitted_marble_can_collect_a_gradient():
    """On "WILL NEVER COLLECT GRADS": it does after retain_grad()."""
    stored = Parameter(3.0)
    mass = stored * 2.0
    mass.retain_grad()
    (mass * mass).backward()
    assert (mass.grad.item(), stored.grad.item()) == (12.0, 24.0)
