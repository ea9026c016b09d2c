"""Element types of the language and how they combine (NumPy 2's rules)."""

from __future__ import annotations

from typing import Final, Literal

import numpy as np

Dtype = Literal["bool", "i64", "f32", "f64"]

DTYPES: Final[tuple[Dtype, ...]] = ("bool", "i64", "f32", "f64")
NUMPY: Final[dict[Dtype, np.dtype]] = {
    "bool": np.dtype(np.bool_),
    "i64": np.dtype(np.int64),
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
}


def is_float(dtype: Dtype) -> bool:
    """Whether values of `dtype` can carry a derivative."""
    return dtype in ("f32", "f64")


def promote(*dtypes: Dtype) -> Dtype:
    """The type common to operands of these types; an int64 with a float32 meets in float64."""
    kinds = set(dtypes)
    if "f64" in kinds or {"i64", "f32"} <= kinds:
        return "f64"
    return max(dtypes, key=DTYPES.index)


def as_float(dtype: Dtype) -> Dtype:
    """The type in which a function like `exp` computes for an argument of `dtype`."""
    return dtype if is_float(dtype) else "f64"
