"""The small C functions that generated code calls where C has no operator with the same meaning."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

HELPERS: Mapping[str, str] = {
    # Integers wrap, as in NumPy; in C an overflow of signed numbers is undefined.
    "adc_add": "int64_t adc_add(int64_t a, int64_t b) { return (int64_t)((uint64_t)a + (uint64_t)b); }",
    "adc_sub": "int64_t adc_sub(int64_t a, int64_t b) { return (int64_t)((uint64_t)a - (uint64_t)b); }",
    "adc_mul": "int64_t adc_mul(int64_t a, int64_t b) { return (int64_t)((uint64_t)a * (uint64_t)b); }",
    "adc_shl": """\
int64_t adc_shl(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a << ((uint64_t)b & 63));
}""",
    "adc_shr": """\
int64_t adc_shr(int64_t a, int64_t b)
{
    const uint64_t by = (uint64_t)b & 63;
    return a < 0 ? (int64_t)~(~(uint64_t)a >> by) : (int64_t)((uint64_t)a >> by);
}""",
    "adc_abs": "int64_t adc_abs(int64_t a) { return a < 0 ? (int64_t)(0 - (uint64_t)a) : a; }",
    "adc_sign": "int64_t adc_sign(int64_t a) { return (int64_t)(a > 0) - (int64_t)(a < 0); }",
    "adc_max": "int64_t adc_max(int64_t a, int64_t b) { return b > a ? b : a; }",
    "adc_min": "int64_t adc_min(int64_t a, int64_t b) { return b < a ? b : a; }",
    # Quotients are rounded down; a divisor of 0 gives 0.
    "adc_div": """\
int64_t adc_div(int64_t a, int64_t b)
{
    if (b == 0 || b == -1)
        return (int64_t)((uint64_t)a * (uint64_t)b);
    return a / b - (int64_t)(a % b != 0 && (a < 0) != (b < 0));
}""",
    "adc_mod": """\
int64_t adc_mod(int64_t a, int64_t b)
{
    if (b == 0 || b == -1)
        return 0;
    return a % b != 0 && (a < 0) != (b < 0) ? a % b + b : a % b;
}""",
    # A number that is no int64_t gives the least one.
    "adc_i64": """\
int64_t adc_i64(double x)
{
    return x >= -9223372036854775808.0 && x < 9223372036854775808.0 ? (int64_t)x : INT64_MIN;
}""",
}
# Functions of floats, once for double and once for float (with an f behind their name).
OF_FLOATS: Mapping[str, str] = {
    "adc_fmax": "REAL adc_fmaxS(REAL a, REAL b) { return b > a ? b : a; }",
    "adc_fmin": "REAL adc_fminS(REAL a, REAL b) { return b < a ? b : a; }",
    # The extremum of a reduction: NaN if either is, and -0 is less than 0.
    "adc_greatest": """\
REAL adc_greatestS(REAL a, REAL b)
{
    if (a != a || b != b)
        return a + b;
    return a > b || (a == b && !signbit(a)) ? a : b;
}""",
    "adc_least": """\
REAL adc_leastS(REAL a, REAL b)
{
    if (a != a || b != b)
        return a + b;
    return a < b || (a == b && signbit(a)) ? a : b;
}""",
    "adc_fsign": "REAL adc_fsignS(REAL x) { return x > 0 ? ONE : x < 0 ? -ONE : x; }",
    # The quotient rounded down and its remainder with the divisor's sign, as in NumPy.
    "adc_fdiv": """\
REAL adc_fdivS(REAL x, REAL y)
{
    const REAL rest = fmodS(x, y), plain = x / y;
    REAL quotient = (x - rest) / y, whole;
    if (y == 0)
        return plain;
    if (rest != 0 && (rest < 0) != (y < 0))
        quotient -= 1;
    if (quotient == 0)
        return copysignS(0, plain);
    whole = floorS(quotient);
    return quotient - whole > HALF ? whole + 1 : whole;
}""",
    "adc_fmod": """\
REAL adc_fmodS(REAL x, REAL y)
{
    const REAL rest = fmodS(x, y);
    if (rest == 0)
        return copysignS(0, y);
    return (rest < 0) != (y < 0) ? rest + y : rest;
}""",
}


def helper_lines(used: Iterable[str]) -> list[str]:
    """The definitions of the helpers that a file uses."""
    names = set(used)
    found = [text for name, text in HELPERS.items() if name in names]
    for name, text in OF_FLOATS.items():
        for suffix, real, one, half in (("", "double", "1.0", "0.5"), ("f", "float", "1.0f", "0.5f")):
            if name + suffix in names:
                replaced = text.replace("REAL", real).replace("ONE", one).replace("HALF", half)
                for called in ("fmod", "floor", "copysign"):
                    replaced = replaced.replace(f"{called}S(", f"{called}{suffix}(")
                found.append(replaced.replace("S(", f"{suffix}("))
    return [f"static inline {text}\n" for text in found]
