"""Arrays of other libraries on the device: they stay there, and results are of the same library."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np

import adcompiler as adc

Pairs = dict[str, tuple[Any, Any]]
LENGTH = 5000
SUM = "sum(sin(x) * w)"


def torch_arrays() -> Pairs:
    """On a stream of their own, in float64 and in bfloat16, and a product by cuBLAS."""
    import torch

    made = [torch.randn(LENGTH, dtype=torch.float64, device="cuda") for _ in range(2)]
    torch.cuda.synchronize()
    with torch.cuda.stream(torch.cuda.Stream()):
        found = called(made)
        torch.cuda.current_stream().synchronize()
    assert all(isinstance(g, torch.Tensor) and g.is_cuda for g in found[1])
    halves = [x.bfloat16() for x in made]
    a, b = (torch.randn(200, 200, dtype=torch.float64, device="cuda") for _ in range(2))
    return {
        "float64": (hosted(found, host_torch), expected([x.cpu().numpy() for x in made])),
        "bfloat16": (hosted(called(halves), host_torch), expected([x.float().cpu().numpy() for x in halves])),
        "product": product(a, b, host_torch),
        "autograd": autograd(made),
    }


def autograd(made: list[Any]) -> tuple[Any, Any]:
    """Both orders by PyTorch's engine, on a stream of its own, and under torch.func."""
    import torch

    f, plain = adc.compile(SUM, backend="cuda"), adc.compile(SUM, backend="numpy")
    x, w = (m.clone().requires_grad_() for m in made)
    with torch.cuda.stream(torch.cuda.Stream()):
        slope, _ = torch.autograd.grad(f(x, w), (x, w), create_graph=True)
        second = torch.autograd.grad((slope * w.detach()).sum(), (x, w))
        pushed = torch.func.jvp(f.torch(), tuple(made), tuple(made))[1]
        torch.cuda.current_stream().synchronize()
    assert slope.is_cuda
    here = [m.cpu().numpy() for m in made]
    product = adc.hvp(plain, (0, 1))(tuple(here), (here[1], np.zeros(LENGTH)))
    along = adc.jvp(plain, tuple(here), tuple(here))[1]
    return [*map(host_torch, second), host_torch(pushed)], [*product, along]


def cupy_arrays() -> Pairs:
    """On a stream of their own, in float64 and in float16, and not contiguous."""
    import cupy

    made = [cupy.random.standard_normal(2 * LENGTH)[::2] for _ in range(2)]
    cupy.cuda.Device().synchronize()
    with cupy.cuda.Stream(non_blocking=True) as stream:
        found = called(made)
        stream.synchronize()
    assert all(isinstance(g, cupy.ndarray) for g in found[1])
    halves = [x.astype(cupy.float16) for x in made]
    a, b = (cupy.random.standard_normal((200, 200)) for _ in range(2))
    return {
        "float64": (hosted(found, cupy.asnumpy), expected([cupy.asnumpy(x) for x in made])),
        "float16": (
            hosted(called(halves), cupy.asnumpy),
            expected([cupy.asnumpy(x).astype(np.float32) for x in halves]),
        ),
        "product": product(a, b, cupy.asnumpy),
    }


def jax_arrays() -> Pairs:
    """In float32 and bfloat16."""
    import jax
    import jax.numpy as jnp

    made = [jax.random.normal(jax.random.key(k), (LENGTH,), jnp.float32) for k in range(2)]
    found = called(made)
    assert all(isinstance(g, jax.Array) for g in found[1])
    halves = [x.astype(jnp.bfloat16) for x in made]
    return {
        "float32": (hosted(found, np.asarray), expected([np.asarray(x) for x in made])),
        "bfloat16": (
            hosted(called(halves), np.asarray),
            expected([np.asarray(x.astype(jnp.float32)) for x in halves]),
        ),
    }


def numba_arrays() -> Pairs:
    """Results that nobody holds any more give their memory to later ones."""
    from numba import cuda

    from adcompiler.targets.cuda.device.device import SIMULATED

    made = [np.random.default_rng(k).normal(size=LENGTH) for k in range(2)]
    held = [cuda.to_device(x) for x in made]
    f = adc.value_and_grad(adc.compile(SUM, backend="cuda"))
    kept = f(*held)
    for _ in range(20):
        f(held[1], held[0])
    held = [cuda.to_device(np.repeat(x, 2))[::2] for x in made]  # with strides
    n = 6 if SIMULATED else 200
    a, b = (np.random.default_rng(k).normal(size=(n, 2 * n)) for k in range(2))
    halves = cuda.to_device(a)[:, ::2], cuda.to_device(b)[:, ::2]
    views = [f(*held)[1][0][10:] for _ in range(3)]  # which hold the memory of results
    return {
        "kept": (hosted(kept, host_numba), expected(made)),
        "strides": (hosted(f(*held), host_numba), expected(made)),
        "views": ([host_numba(v) for v in views], [expected(made)[1][0][10:]] * 3),
        "product": (
            host_numba(adc.compile("def f(a, b):\n    return a @ b.T", backend="cuda")(*halves)),
            a[:, ::2] @ b[:, ::2].T,
        ),
    }


ALL: dict[str, Callable[[], Pairs]] = {
    "numba": numba_arrays, "torch": torch_arrays, "cupy": cupy_arrays, "jax": jax_arrays
}  # fmt: skip


def present() -> list[str]:
    """The libraries that are here; the simulator has none but numba's."""
    from adcompiler.targets.cuda.device.device import SIMULATED

    return [name for name in ALL if name == "numba" or (find_spec(name) is not None and not SIMULATED)]


def called(arrays: list[Any]) -> Any:
    """Value and gradient."""
    return adc.value_and_grad(adc.compile(SUM, backend="cuda"))(*arrays)


def expected(arrays: list[np.ndarray]) -> Any:
    """The same by the NumPy backend."""
    return adc.value_and_grad(adc.compile(SUM, backend="numpy"))(*arrays)


def hosted(found: Any, to_host: Callable[[Any], Any]) -> Any:
    """Results on the host."""
    value, gradients = found
    return value if isinstance(value, float) else to_host(value), tuple(map(to_host, gradients))


def product(a: Any, b: Any, to_host: Callable[[Any], Any]) -> tuple[Any, Any]:
    """A product of matrices, by the library."""
    found = adc.compile("def f(a, b):\n    return a @ b.T", backend="cuda")(a, b)
    return to_host(found), to_host(a) @ to_host(b).T


def host_numba(x: Any) -> Any:
    """An array of numba's."""
    return x.copy_to_host()


def host_torch(x: Any) -> Any:
    """A tensor as NumPy's array."""
    return x.detach().cpu().numpy()


def imported() -> dict[str, str]:
    """The versions of what may matter."""
    names = ("numpy", "numba", "numba_cuda", "llvmlite", "torch", "jax", "cupy")
    return {n: str(getattr(sys.modules[n], "__version__", "?")) for n in names if n in sys.modules}
