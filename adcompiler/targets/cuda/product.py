"""Matrix products: cuBLAS through CuPy or PyTorch if one of them is imported, otherwise our own kernel."""

from __future__ import annotations

import sys
from functools import cache
from typing import Any

from adcompiler.targets.cuda.device.arrays import handle
from adcompiler.targets.cuda.device.device import SIMULATED, launcher, loaded
from adcompiler.targets.cuda.device.header import with_header

TILE = 2 if SIMULATED else 16  # rows and columns of a tile of shared memory
EACH = 2 if SIMULATED else 4  # rows and columns of the result that a thread computes

TEXT = """@kernel
def multiply(a, b, c, rows, columns, iterations):
    # A block computes a square of c: each thread {each} by {each} of its elements, in registers.
    left = cuda.shared.array(({side}, {tile}), kind)
    right = cuda.shared.array(({tile}, {side}), kind)
    x, y = cuda.threadIdx.x, cuda.threadIdx.y
    t = y * {tile} + x
    across = (columns + {side} - 1) // {side}  # squares: the grid is a row of blocks, which may be a long one
    top, first = cuda.blockIdx.x // across * {side}, cuda.blockIdx.x % across * {side}
    total = cuda.local.array(({each}, {each}), kind)
    for p in range({each}):
        for q in range({each}):
            total[p, q] = 0
    for start in range(0, iterations, {tile}):
        for p in range({each}):
            i, k = (t + p * {threads}) // {tile}, (t + p * {threads}) % {tile}
            inside = top + i < rows and start + k < iterations
            left[i, k] = a[{left}] if inside else 0
            k, j = (t + p * {threads}) // {side}, (t + p * {threads}) % {side}
            inside = first + j < columns and start + k < iterations
            right[k, j] = b[{right}] if inside else 0
        cuda.syncthreads()
        for k in range({tile}):
            for p in range({each}):
                for q in range({each}):
                    total[p, q] += left[y + p * {tile}, k] * right[k, x + q * {tile}]
        cuda.syncthreads()
    for p in range({each}):
        for q in range({each}):
            i, j = top + y + p * {tile}, first + x + q * {tile}
            if i < rows and j < columns:
                c[i, j] = total[p, q]
"""


@cache
def _kernel(op: str, dtype: str) -> Any:
    numbers = {"tile": TILE, "each": EACH, "side": TILE * EACH, "threads": TILE * TILE}
    left = "start + k, top + i" if op == "matmul_tn" else "top + i, start + k"
    right = "first + j, start + k" if op == "matmul_nt" else "start + k, first + j"
    text = f"kind = np.{dtype}\n\n\n" + TEXT.format(**numbers, left=left, right=right)
    return loaded(with_header("# A product of matrices.\n", text), "multiply")


def multiply(op: str, operands: list[Any], out: Any, stream: Any) -> None:
    """out = A B, A Bᵀ ("matmul_nt") or Aᵀ B ("matmul_tn")."""
    left, right = operands
    (rows, columns), iterations = out.shape, left.shape[0] if op == "matmul_tn" else left.shape[1]
    if not rows or not columns:
        return
    name = _library()
    if name is not None:
        LIBRARIES[name](op, left, right, out, stream)
        return
    side = TILE * EACH
    blocks = -(-columns // side) * -(-rows // side)
    launcher(_kernel(op, str(out.dtype)), blocks, (TILE, TILE), stream)(
        left, right, out, rows, columns, iterations
    )


def _library() -> str | None:
    """The library for products: CuPy or PyTorch, if it is imported and has the device."""
    if SIMULATED:
        return None
    if "cupy" in sys.modules:
        return "cupy"
    return "torch" if "torch" in sys.modules and sys.modules["torch"].cuda.is_available() else None


def _by_cupy(op: str, left: Any, right: Any, out: Any, stream: Any) -> None:
    cupy = sys.modules["cupy"]
    a, b, c = (cupy.asarray(x) for x in (left, right, out))
    with cupy.cuda.ExternalStream(handle(stream)):
        cupy.matmul(a.T if op == "matmul_tn" else a, b.T if op == "matmul_nt" else b, out=c)


def _by_torch(op: str, left: Any, right: Any, out: Any, stream: Any) -> None:
    torch = sys.modules["torch"]
    a, b, c = (torch.as_tensor(x, device="cuda") for x in (left, right, out))
    with torch.cuda.stream(torch.cuda.ExternalStream(handle(stream))):
        torch.matmul(a.T if op == "matmul_tn" else a, b.T if op == "matmul_nt" else b, out=c)


LIBRARIES = {"cupy": _by_cupy, "torch": _by_torch}
