"""Names in generated C: those of the program, unless C has them."""

from __future__ import annotations

import re

from adcompiler.errors import Error

KEYWORDS = frozenset(
    word
    for line in (
        "auto bool break case char const constexpr continue default do double else enum extern false",
        "float for goto if inline int int64_t long nullptr register restrict return short signed sizeof",
        "static struct switch true typedef typeof uint8_t union unsigned void volatile while",
        "malloc free size_t memcpy",
    )
    for word in line.split()
)
# Names already used by the C headers.
HEADERS = frozenset(
    f"{word}{ending}"
    for words, endings in (
        ("acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh erf erfc exp exp2 expm1", "fl"),
        ("fabs fdim floor fma fmax fmin fmod frexp hypot ilogb ldexp lgamma llrint llround log log10", "fl"),
        ("log1p log2 logb lrint lround modf nan nearbyint nextafter nexttoward pow remainder remquo", "fl"),
        ("rint round scalbln scalbn sin sinh sqrt tan tanh tgamma trunc", "fl"),
        ("abort abs atexit atof atoi atol atoll bsearch calloc div exit getenv j0 j1 jn labs ldiv llabs", ""),
        ("lldiv main qsort rand realloc srand strtod strtof strtol strtold strtoll strtoul strtoull", ""),
        ("system y0 y1 yn errno HIDDEN HUGE_VAL INFINITY NAN NULL M_E M_PI RAND_MAX", ""),
    )
    for word in words.split()
    for ending in ("", *endings)
)
MACROS = frozenset({
    "bool", "true", "false", "isnan", "isinf", "isfinite", "signbit", "linux", "unix", "i386", "NULL",
    "INT64_C", "INT64_MIN", "NAN", "INFINITY",
})  # fmt: skip
TAKEN = KEYWORDS | HEADERS | MACROS


def local(name: str) -> str:
    """The name of a variable or a parameter of the program, none of which begins with an underscore."""
    return f"_{name}" if name in TAKEN or name.startswith("adc_") else name


def check_name(name: str) -> None:
    """Raise an Error unless `name` can be the name of a C function."""
    taken = name in TAKEN
    if taken or not re.fullmatch(r"[A-Za-z]\w*", name, re.ASCII):
        why = "C has the name" if taken else "names have letters, digits and _"
        free = "my_" + re.sub(r"\W+", "_", name, flags=re.ASCII).strip("_")
        remedy = f"give the function another name: adc build --name {free}"
        raise Error(f"{name!r} cannot be the name of a C function: {why}", remedy=remedy)
