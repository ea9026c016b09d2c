"""SciPy's distributions: `stats.chi2.logpdf(x, df, loc=0, scale=1)` and the other methods.

A definition in `distributions.adc` has the formulas of the standard form. Each method is a definition made of
them, with the support, the demands on parameters, and location and scale, as a text in the language:

    def chi2_cdf(x: elements, df: elements, loc: elements = 0, scale: elements = 1):
        z = (x - loc) / scale
        outside = z < 0 or z == inf
        x = where(outside, 0 + 1.0, z)
        found = gammainc(df / 2, x / 2)
        return where(df > 0 and scale > 0, where(z < 0, 0.0, where(z == inf, 1.0, found)), nan)

The support is `real`, `between(low, high)`, `inside(low, high)` without its ends, or `whole(low, high)` of a
discrete distribution, which has no scale.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cached_property, partial

from adcompiler.frontend.grammar.other_languages import DRAW
from adcompiler.frontend.library.prelude import Composite, definitions

DEMANDS = {"positive": "{} > 0", "not_negative": "{} >= 0", "fraction": "{0} >= 0 and {0} <= 1"}
WORDS = {
    "pdf": "The density of", "pmf": "The probability of x in", "logpdf": "The logarithm of the density of",
    "logpmf": "The logarithm of the probability of x in", "cdf": "The probability of at most x in",
    "sf": "The probability of more than x in", "logcdf": "The logarithm of the probability of at most x in",
    "logsf": "The logarithm of the probability of more than x in",
    "ppf": "The number that is not exceeded with the probability q in",
    "isf": "The number that is exceeded with the probability q in",
}  # fmt: skip
METHODS_OF_SCIPY = (*WORDS, "rvs")
# The logarithms of densities of several numbers.
OTHERS = {
    "dirichlet": "logpdf(x, a) is sum(xlogy(a - 1, x)) + lgamma(sum(a)) - sum(lgamma(a))",
    "multivariate_normal": "logpdf(x, m, C) is "
    "-0.5 * ((x - m) @ solve(C, x - m) + slogdet(C)[1] + len(x) * log(2 * pi))",
}
HEADER = re.compile(r"def (\w+)\((.*)\):\n")
PARAMETER = re.compile(r"(\w+): (\w+)(?:\(([^,]+), ([^)]+)\))?")
FORMULA = re.compile(r"\n    (?=\w+ = )")


class Distribution:
    """A distribution: its definition in parts."""

    def __init__(self, name: str, text: str, line: int) -> None:
        self.name, self.text, self.line = name, text.strip(), line

    def methods(self) -> Iterator[tuple[str, Composite]]:
        """The methods, by their names in the language."""
        mass = "pmf" if self.discrete else "pdf"
        names = [mass, f"log{mass}", "cdf", "sf", "logcdf", "logsf"]
        names += ["ppf", "isf"] if " quantile = " in self.text else []
        for name in names:
            yield (
                f"{self.name}.{name}",
                Composite(f"{self.name}_{name}", partial(self.written, name), self.line),
            )

    @property
    def discrete(self) -> bool:
        """Whether its values are integers."""
        return "x: whole(" in self.text

    @cached_property
    def parameters(self) -> list[tuple[str, str, str, str]]:
        """The parameters: their names, kinds, and for x the ends of the support."""
        header = HEADER.match(self.text)
        assert header is not None
        return PARAMETER.findall(header[2])

    @cached_property
    def formulas(self) -> dict[str, str]:
        """The formulas by name, in brackets; those that are not written follow from others."""
        _, *parts = FORMULA.split(self.text)
        found = {name: f"({value})" for name, value in (part.split(" = ", 1) for part in parts)}
        return {
            "density": f"exp({found['log']})", "logbelow": f"_log_of({found['below']}, {found['above']})",
            "logabove": f"_log_of({found['above']}, {found['below']})", **found,
        }  # fmt: skip

    def written(self, method: str) -> str:
        """The definition of a method."""
        quantile, title = method in ("ppf", "isf"), self.text.split('"""')[1]
        _, *shapes = self.parameters
        defaults = {"loc": " = 0"} if self.discrete else {"loc": " = 0", "scale": " = 1"}
        names = ["q" if quantile else "x", *(name for name, *_ in shapes), *defaults]
        header = ", ".join(f"{n}: elements{defaults.get(n, '')}" for n in names)
        demands = [f"({DEMANDS[kind].format(name)})" for name, kind, *_ in shapes]
        valid = " and ".join(demands if self.discrete else [*demands, "scale > 0"]) or "True"
        *body, found = self.quantile(method) if quantile else self.value(method)
        lines = [f'"""{WORDS[method]} {title}."""', *body, f"return where({valid}, {found}, nan)"]
        return f"def {self.name}_{method}({header}):\n" + "".join(f"    {line}\n" for line in lines)

    def quantile(self, method: str) -> list[str]:
        """The lines of a quantile; it is NaN unless q is a probability."""
        formula = self.formulas["quantile" if method == "ppf" else "upper"]
        return ["possible = q >= 0 and q <= 1", "q = where(possible, q, 0.5)",
                f"where(possible, loc + scale * {formula}, nan)"]  # fmt: skip

    def value(self, method: str) -> list[str]:
        """The lines of a density or a total; the last one is its value."""
        mass = method.endswith(("pdf", "pmf"))
        none, whole = ("-inf", "0.0") if method.startswith("log") else ("0.0", "1.0")
        before, beyond = (none, none) if mass else (none, whole) if method.endswith("cdf") else (whole, none)
        _, support, low, high = self.parameters[0]
        found = self.formula(method)
        if support == "real":
            return ["x = (x - loc) / scale", found]
        start = (
            "x - loc"
            if self.discrete and mass
            else "floor(x - loc)"
            if self.discrete
            else "(x - loc) / scale"
        )
        below = f"z <= {low}" if support == "inside" else f"z < {low}"
        above = (
            f"z == {high}"
            if high == "inf"
            else f"z >= {high}"
            if self.discrete and not mass
            else f"z > {high}"
        )
        between = " or z > floor(z)" if self.discrete and mass else ""
        safe = low if self.discrete else f"{low} + 1.0" if high == "inf" else f"{low} + 0.5"
        lines = [f"z = {start}", f"outside = {below} or {above}{between}", f"x = where(outside, {safe}, z)"]
        if before == beyond:
            return [*lines, f"where(outside, {before}, {found})"]
        return [*lines, f"where({below}, {before}, where({above}, {beyond}, {found}))"]

    def formula(self, method: str) -> str:
        """The value of a method inside of the support."""
        match method:
            case "pmf":
                return self.formulas["density"]
            case "pdf":
                return f"{self.formulas['density']} / scale"
            case "logpmf":
                return self.formulas["log"]
            case "logpdf":
                return f"{self.formulas['log']} - log(scale)"
        side = "below" if method.endswith("cdf") else "above"
        return self.formulas[f"log{side}" if method.startswith("log") else side]


DISTRIBUTIONS: Mapping[str, Distribution] = {
    name: Distribution(name, text, line)
    for name, text, line in definitions("distributions.adc")
    if not name.startswith("_")
}
METHODS: Mapping[str, Composite] = {
    name: method for found in DISTRIBUTIONS.values() for name, method in found.methods()
}


def of_scipy(whole: str) -> str | None:
    """A suggestion for a method of a distribution that the language does not have, such as `t.ppf`; None for
    other names."""
    *before, name, method = ["", *whole.split(".")]
    if ".".join(before).strip(".") not in ("", "stats", "scipy.stats", "jax.scipy.stats"):
        return None
    if name not in (*DISTRIBUTIONS, *OTHERS) or method not in METHODS_OF_SCIPY:
        return None
    if method == "rvs":
        return DRAW
    if name in OTHERS:
        return f"{name}.{OTHERS[name]}; for others call SciPy outside"
    if f"{name}.{method}" in METHODS:
        return f"write stats.{name}.{method}(...)"
    known = " ".join(m.partition(".")[2] for m in METHODS if m.startswith(f"{name}."))
    return f"{name} has {known}; for others call SciPy outside"
