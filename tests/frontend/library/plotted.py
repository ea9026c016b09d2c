"""What the plots of docs/functions.md show: for each function a call with x, and an interval of x."""

from __future__ import annotations

from adcompiler.frontend.library.prelude import sections

Plots = list[tuple[str, tuple[float, float]]]  # calls, and between which numbers they are plotted

# Functions of arrays are plotted against one element. Those that only move elements have no plot.
CALLS = {
    "average": ("average([x, 1], 0, [1, x*x])", -3, 3),
    "cov": ("cov([x, 0, 1])", -2, 3),
    "softmax": ("softmax([x, 0, 1])[0]", -4, 6),
    "log_softmax": ("log_softmax([x, 0, 1])[0]", -4, 6),
    "ptp": ("ptp([x, 0, 1])", -2, 3),
    "count_nonzero": ("count_nonzero([x > 0, 1])", -2, 2),
    "nansum": ("nansum([x*x, 1, nan])", -2, 2),
    "nanprod": ("nanprod([x*x, x, nan])", -2, 2),
    "nanmean": ("nanmean([sin(x), 1, nan])", -4, 4),
    "nanvar": ("nanvar([x, 1, nan])", -2, 4),
    "nanmax": ("nanmax([x, 0, nan])", -2, 2),
    "nanmin": ("nanmin([x, 0, nan])", -2, 2),
    "corrcoef": ("corrcoef([x, 0, 1], [0, 1, 2])[0, 1]", -3, 3),
    "trapezoid": ("trapezoid([0, x, x*x])", -2, 2),
    "convolve": ("convolve([x, 1], [x, 2])[0]", -2, 2),
    "cross": ("cross([x, 1, 0], [1, x, 0])[2]", -2, 2),
    "ediff1d": ("ediff1d([x*x, x])[0]", -1, 2),
    "cumulative_trapezoid": ("cumulative_trapezoid([0, x, x*x])[1]", -2, 2),
    "gradient": ("gradient([x, 0, x*x])[1]", -2, 2),
    "correlate": ("correlate([x, 1], [x, 2])[0]", -2, 2),
    "median": ("median([x, -1, 1])", -3, 3),
    "quantile": ("quantile([0, 1, 3], x)", 0, 1),
    "percentile": ("percentile([0, 1, 3], x)", 0, 100),
    "interp": ("interp(x, [-1, 0, 2], [0, 2, 1])", -2, 3),
    "digitize": ("digitize(x, [-1, 0, 1])", -2, 2),
    "nan_to_num": ("nan_to_num(sqrt(x))", -1, 3),
    "select": ("select([x < 0, x < 1], [x*x, x], 1)", -1.5, 2),
    "isclose": ("isclose(x, 1, 0, 0.5)", 0, 2),
    "allclose": ("allclose([x, 1], 1, 0, 0.5)", 0, 2),
    "logspace": ("logspace(0, x, 3, 2)[1]", -2, 4),
    "geomspace": ("geomspace(1, x, 3)[1]", 0, 4),
    "polyval": ("polyval([1, 0, -2, 0], x)", -2, 2),
    "vander": ("vander([x], 4)[0, 0]", -2, 2),
    "outer": ("outer([x, 1], [x, 2])[0, 0]", -2, 2),
    "inner": ("inner([x, 1], [x, -1])", -2, 2),
    "vdot": ("vdot([x, 1], [x, -2])", -2, 2),
    "inv": ("inv([[x, 1], [-1, x]])[0, 0]", -4, 4),
    "trace": ("trace([[x, 1], [1, x*x]])", -2, 2),
    "lstsq": ("lstsq([[x], [1]], [1, 1])[0][0]", -4, 4),
    "expm": ("expm([[0, x], [-x, 0]])[0, 0]", -4, 4),
    "matrix_power": ("matrix_power([[x, 1], [1, 0]], 3)[0, 0]", -1.5, 1.5),
    "multi_dot": ("multi_dot(([[x]], [[x]], [[x]]))[0, 0]", -1.5, 1.5),
    "cond": ("cond([[3, x], [x, 3]])", -2, 2),
    "gammaincinv": ("gammaincinv(2, x)", 0.01, 0.99),
    "gammainccinv": ("gammainccinv(2, x)", 0.01, 0.99),
    "betaincinv": ("betaincinv(2, 3, x)", 0.01, 0.99),
    "betainccinv": ("betainccinv(2, 3, x)", 0.01, 0.99),
}
MOVING = {
    "flipud", "fliplr", "rot90", "atleast_1d", "atleast_2d", "atleast_3d", "append", "insert", "delete",
    "split", "array_split", "hsplit", "vsplit", "dsplit", "dstack", "hstack", "vstack", "column_stack", "tri",
    "eye", "identity", "tril", "triu",
}  # fmt: skip

DENSITIES = {  # the other parameters of the densities, and where they are plotted
    "norm": ("", -4, 4),
    "t": ("3", -4, 4),
    "chi2": ("4", 0, 12),
    "beta": ("2, 3", 0, 1),
    "gamma": ("2", 0, 8),
    "invgamma": ("3", 0, 2),
    "f": ("5, 8", 0, 4),
    "expon": ("", 0, 4),
    "lognorm": ("0.5", 0, 4),
    "halfnorm": ("", 0, 4),
    "laplace": ("", -4, 4),
    "logistic": ("", -6, 6),
    "cauchy": ("", -5, 5),
    "gumbel_r": ("", -3, 6),
    "weibull_min": ("1.8", 0, 3),
    "rayleigh": ("", 0, 4),
    "pareto": ("2", 0, 4),
    "uniform": ("", -1, 2),
}


def densities() -> Plots:
    return [
        (f"{name}.pdf(x, {more})" if more else f"{name}.pdf(x)", (start, stop))
        for name, (more, start, stop) in DENSITIES.items()
    ]


def pictures() -> dict[str, Plots]:
    """The plots of each picture of the page, by the picture's name."""
    found = {}
    for title, names in sections("prelude.adc"):
        plots = [(call, (start, stop)) for call, start, stop in (CALLS[n] for n in names if n in CALLS)]
        if plots:
            found[file_of(title)] = plots
    return found | {"distributions.svg": densities()}


def file_of(title: str) -> str:
    """The name of the picture of a section."""
    return f"functions-{title.split()[0].lower()}.svg"


def columns(name: str) -> int:
    """The number of plots beside each other in a picture: calls of functions of arrays are long."""
    return 5 if name == "distributions.svg" else 3
