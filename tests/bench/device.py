"""Whether a CUDA device can be used by us and by at least one peer."""

from __future__ import annotations


def missing() -> str:
    """Why not, or nothing."""
    import adcompiler as adc

    try:
        value = adc.compile("x * 2.0", backend="cuda")(1.5)
    except Exception as error:  # what stands in the way is told, whatever it is
        return f"backend cuda: {error}"
    return "" if value == 3.0 else "backend cuda: a first product is wrong"
