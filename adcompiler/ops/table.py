"""The rule table: every primitive by its name, and the names that NumPy, `math` and SciPy use."""

from __future__ import annotations

from types import MappingProxyType

from adcompiler.ops.rules.activation import ACTIVATION
from adcompiler.ops.rules.arithmetic import ARITHMETIC
from adcompiler.ops.rules.comparison import COMPARISON
from adcompiler.ops.rules.elementary import ELEMENTARY
from adcompiler.ops.rules.integer import INTEGER
from adcompiler.ops.rules.normal import NORMAL
from adcompiler.ops.rules.piecewise import PIECEWISE
from adcompiler.ops.rules.primitive import Primitive
from adcompiler.ops.rules.rounding import ROUNDING
from adcompiler.ops.rules.special import SPECIAL

SECTIONS = MappingProxyType({
    "Arithmetic": ARITHMETIC,
    "Functions with kinks": PIECEWISE,
    "Rounding and remainders": ROUNDING,
    "Elementary functions": ELEMENTARY,
    "The logistic function and related functions": ACTIVATION,
    "The error function and the normal distribution": NORMAL,
    "Special functions": SPECIAL,
    "Comparisons, classification and logic": COMPARISON,
    "Bits of integers": INTEGER,
})  # fmt: skip

_entries = {entry.name: entry for section in SECTIONS.values() for entry in section}
TABLE = MappingProxyType(_entries)


def add_entry(entry: Primitive) -> None:
    """A user's own primitive; programs know it by its name, which must be free."""
    if entry.name in _entries:
        raise ValueError(f"there is a primitive {entry.name}")
    _entries[entry.name] = entry


ALIASES = MappingProxyType({
    "arcsin": "asin", "arccos": "acos", "arctan": "atan", "arctan2": "atan2",
    "arcsinh": "asinh", "arccosh": "acosh", "arctanh": "atanh",
    "pow": "power", "true_divide": "divide", "mod": "remainder", "fabs": "abs", "absolute": "abs",
    "round": "rint", "fix": "trunc", "radians": "deg2rad", "degrees": "rad2deg",
    "bitwise_not": "invert", "bitwise_invert": "invert",
    "bitwise_left_shift": "left_shift", "bitwise_right_shift": "right_shift",
    "expit": "sigmoid", "log_expit": "log_sigmoid", "swish": "silu",
    "logsigmoid": "log_sigmoid", "clamp": "clip", "float_power": "power",
    "gammaln": "lgamma", "psi": "digamma", "betaln": "lbeta", "jv": "jn",
    "norm_cdf": "ndtr", "norm_logcdf": "log_ndtr", "norm_ppf": "ndtri",
})  # fmt: skip
