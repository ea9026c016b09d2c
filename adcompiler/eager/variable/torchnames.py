"""PyTorch's names on a Variable: four that are operators here, and what to write for others."""

from __future__ import annotations

from types import MappingProxyType

SAME = MappingProxyType({"mul": "multiply", "sub": "subtract", "div": "divide", "neg": "negative"})

INSTEAD = MappingProxyType({
    "bmm": "x @ y", "cat": "np.concatenate([x, y])", "chunk": "np.split(x, count)", "cpu": "x itself",
    "cuda": 'adc.compile(source, backend="cuda")', "dim": "x.ndim", "double": "x.astype(np.float64)",
    "expand_as": "x.expand(y.shape)", "float": "x.astype(np.float32)",
    "fill": "x.fill_(value)",
    "gather": "np.take_along_axis(x, indices, axis)", "grad_fn": "adc.tape.show(), or adc.tape.trace()",
    "index_select": "np.take(x, indices, axis)", "long": "x.astype(np.int64)",
    "masked_fill": "np.where(mask, value, x)", "masked_fill_": "x[mask] = value", "mm": "x @ y",
    "mv": "x @ y",
    "new_zeros": "np.zeros(shape)", "numel": "x.size", "permute": "x.transpose(axes)",
    "softmax": "(x - x.logsumexp()).exp()", "split_with_sizes": "np.split(x, places)", "t": "x.T",
    "mT": "x.swapaxes(-1, -2)", "to": "x.astype(dtype)", "type": "x.dtype", "unbind": "iterate over x",
    "unsqueeze": "np.expand_dims(x, axis)", "view": "x.reshape(shape)", "view_as": "x.reshape(y.shape)",
})  # fmt: skip


def missing(kind: str, name: str) -> AttributeError:
    """The error for a name that is no attribute, with NumPy's or ours where it is PyTorch's."""
    instead = INSTEAD.get(name)
    hint = f": write {instead}" if instead else ""
    return AttributeError(f"{kind!r} object has no attribute {name!r}{hint}")
