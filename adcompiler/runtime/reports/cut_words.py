"""Messages about cuts of gradients: what happened, and what to write instead."""

from __future__ import annotations

from typing import NamedTuple


class Words(NamedTuple):
    """`what` follows the name of a value; `headline` stands before "cuts the path"."""

    headline: str
    what: str
    remedy: str


_NUMBER = "it is a Python number, which is not part of a graph"
_ARRAY = "it is a plain array, which is not part of a graph"
_STEP = "a comparison is a step: its derivative is zero everywhere"

WORDS: dict[str, Words] = {
    ".item()": Words(".item()", _NUMBER, "compute with the Variable itself: remove .item()"),
    "float()": Words("float()", _NUMBER, "compute with the Variable itself: remove float(), and write "
                     "np.exp, not math.exp"),
    "int()": Words("int()", "it is a Python integer, which has no derivative",
                   "compute with the Variable itself: remove int()"),
    ".value": Words(".value", _ARRAY, "compute with the Variable itself: remove .value"),
    ".numpy()": Words(".numpy()", _ARRAY, "compute with the Variable itself: remove .numpy()"),
    "np.asarray()": Words("the conversion to an array", _ARRAY,
                          "compute with the Variable itself; np.stack joins Variables and keeps the graph"),
    "comparison": Words("a comparison", _STEP, "use a smooth step, such as sigmoid((x - c) / width)"),
    "choice": Words("a choice by values", "a choice by values is a step: its derivative is zero everywhere",
                    "weight the alternatives, for example with a softmax: exp(x - logsumexp(x))"),
    "detach()": Words("detach()", "detach() starts a new graph",
                      "remove detach(); clone() makes another Variable that keeps the graph"),
    "detach_()": Words("detach_()", "detach_() made it a leaf", "remove detach_()"),
    "no_grad": Words("no_grad", "it was computed under no_grad, so nothing was recorded",
                     "compute it outside of `with adc.no_grad():`, or inside `with adc.enable_grad():`"),
    "Variable()": Words("a new Variable", "it is a new Variable made from a value: another leaf",
                        "use the Variable itself; clone() makes another one that keeps the graph"),
    "integer": Words("a conversion to integers", "it holds integers, which have no derivative",
                     "keep floats: remove astype(int)"),
    "create_graph": Words("a gradient without a graph", "it is a gradient that was computed without a graph",
                          "pass create_graph=True to the grad() or backward() that computed it"),
    "requires_grad": Words("setting requires_grad", "requires_grad was set after it was read: a new graph "
                           "starts there", "create it with requires_grad=True, before it is read"),
    "zero": Words("a derivative that is zero everywhere", "its derivative is zero everywhere",
                  "remove it, or use a smooth function; y + (floor(y) - y).detach() has "
                  "the value of floor(y) and the derivative of y"),
    "zero here": Words("a derivative that is zero", "its derivative is zero for these values",
                       "check the values: all are on the flat side, as in a dead relu"),
    "propagate": Words("a recorded propagate", "the propagate that was recorded returned None for it",
                       "return its cotangent from propagate; None stands for zero"),
    "compiled": Words("a compiled function", "the compiled function has no derivative with respect to it",
                      "f.why_none(name) shows the place in its source"),
    "reset": Words("adc.tape.reset()", "its graph was dropped by reset()", "compute it again after reset()"),
    "same value": Words("another object", "it has the same value, but is another object",
                        "use one object: the one whose gradient you ask for"),
    "changed": Words("a change in place", "it was changed in place after it was read, and now has the "
                     "new value", "take the gradient before the change, or change a clone()"),
}  # fmt: skip


def words(how: str) -> Words:
    """The words for a kind of cut; a primitive without a derivative is a comparison or logic."""
    return WORDS.get(how) or WORDS["comparison"]
