"""What cuts a gradient off, in words: what happened, and what to write instead."""

from __future__ import annotations

from typing import NamedTuple


class Words(NamedTuple):
    """`what` follows the name of a value; `headline` stands before "cuts the path"."""

    headline: str
    what: str
    remedy: str


_NUMBER = "it is a Python number, which remembers no computation"
_ARRAY = "it is a plain array, which remembers no computation"
_STEP = "a comparison is a step: its derivative is zero everywhere"

WORDS: dict[str, Words] = {
    ".item()": Words(".item()", _NUMBER, "compute with the Variable itself: leave .item() away"),
    "float()": Words("float()", _NUMBER, "compute with the Variable itself: leave float() away, and write "
                     "np.exp, not math.exp"),
    "int()": Words("int()", "it is a Python integer, which has no derivative",
                   "compute with the Variable itself: leave int() away"),
    ".value": Words(".value", _ARRAY, "compute with the Variable itself: leave .value away"),
    ".numpy()": Words(".numpy()", _ARRAY, "compute with the Variable itself: leave .numpy() away"),
    "np.asarray()": Words("the conversion to an array", _ARRAY,
                          "compute with the Variable itself; np.stack joins Variables and keeps the graph"),
    "comparison": Words("a comparison", _STEP, "use a smooth step, such as sigmoid((x - c) / width)"),
    "choice": Words("a choice by values", "a choice by values is a step: its derivative is zero everywhere",
                    "weigh what is chosen from, as a softmax does, exp(x - logsumexp(x))"),
    "detach()": Words("detach()", "detach() begins a graph of its own",
                      "leave detach() away; clone() makes another Variable that keeps the graph"),
    "detach_()": Words("detach_()", "detach_() made it a leaf", "leave detach_() away"),
    "no_grad": Words("no_grad", "it was computed under no_grad, so nothing was recorded",
                     "compute it outside of `with adc.no_grad():`, or inside `with adc.enable_grad():`"),
    "Variable()": Words("a new Variable", "it is a new Variable around a value: another leaf",
                        "use the Variable itself; clone() makes another one that keeps the graph"),
    "integer": Words("a conversion to integers", "it holds integers, which have no derivative",
                     "keep floats: leave astype(int) away"),
    "create_graph": Words("a gradient without a graph", "it is a gradient that was computed without a graph",
                          "pass create_graph=True to the grad() or backward() that computed it"),
    "requires_grad": Words("setting requires_grad", "requires_grad was set after it had been read: a new "
                           "graph begins there", "create it with requires_grad=True, before it is read"),
    "zero": Words("a derivative that is zero everywhere", "its derivative is zero everywhere",
                  "leave it away, or take a smooth function in its place; y + (floor(y) - y).detach() has "
                  "the value of floor(y) and the derivative of y"),
    "zero here": Words("a derivative that is zero", "its derivative is zero for these values",
                       "look at the values: all of them are on the flat side, as those of a dead relu"),
    "propagate": Words("a recorded propagate", "the propagate that was recorded returned None for it",
                       "return its cotangent from propagate; None stands for zero"),
    "compiled": Words("a compiled function", "the compiled function has no derivative with respect to it",
                      "f.why_none(name) shows the place in its source"),
    "reset": Words("adc.tape.reset()", "its graph was dropped by reset()", "compute it again after reset()"),
    "same value": Words("another object", "it has the same value, and is another object",
                        "use one object: the one whose gradient you ask for"),
    "changed": Words("a change in place", "it was changed in place after it had been read, and stands for "
                     "the new value since", "take the gradient before the change, or change a clone()"),
}  # fmt: skip


def words(how: str) -> Words:
    """The words for a kind of cut; a primitive without a derivative is a comparison or logic."""
    return WORDS.get(how) or WORDS["comparison"]
