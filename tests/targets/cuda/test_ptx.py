"""Every kernel compiles to PTX that `ptxas` accepts, for several generations of devices; no device is needed.

Registers, spills and local memory stand in the report (`--junitxml`), and are printed with `-rA`.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from programs.ir_evaluated import optimised, orders, program
from programs.ir_texts import CASES

import adcompiler as adc
from adcompiler.ir.nodes import Element, Func, Index, Input, Map, Read, Size, const
from adcompiler.ir.types import Dtype
from adcompiler.ops.build import apply
from adcompiler.ops.table import TABLE
from tests.gpu.workloads import FEATURES, WORKLOADS, Workload


def has_compilers() -> bool:
    """Whether numba-cuda is here with its two compilers, and not its simulator."""
    if find_spec("numba_cuda") is None or os.environ.get("NUMBA_ENABLE_CUDASIM") == "1":
        return False
    from cuda.pathfinder import DynamicLibNotFoundError, load_nvidia_dynamic_lib
    from numba.cuda.cudadrv import nvvm

    try:
        load_nvidia_dynamic_lib("nvrtc")
    except DynamicLibNotFoundError:
        return False
    return bool(nvvm.is_available())


pytestmark = pytest.mark.skipif(not has_compilers(), reason='needs pip install "adcompiler[cuda]"')
ARCHS = [(7, 5), (8, 0), (9, 0)]
PTXAS = shutil.which("ptxas")


def assembled(func: Func, arch: tuple[int, int], folder: Path, every: bool) -> Iterator[tuple[str, Any]]:
    """Each kernel's name, and its registers, bytes of spills and of local memory: None without ptxas."""
    from adcompiler.targets.cuda.backend import of_device
    from adcompiler.targets.cuda.ptx import compiled

    for kernel in compiled(of_device(optimised(func)), arch, every):
        assert f".target sm_{arch[0]}{arch[1]}" in kernel.ptx
        # The features that kernels use are older than the version that the compiler writes.
        path = folder / f"{kernel.name}.ptx"
        path.write_text(re.sub(r"\.version \S+", ".version 7.8", kernel.ptx), "utf-8")
        yield kernel.name, resources(path, arch) if PTXAS else None


def resources(path: Path, arch: tuple[int, int]) -> dict[str, int]:
    """What ptxas says of a kernel."""
    call = [str(PTXAS), "-v", f"-arch=sm_{arch[0]}{arch[1]}", str(path), "-o", os.devnull]
    done = subprocess.run(call, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    patterns = {
        "registers": r"Used (\d+) registers",
        "spills": r"(\d+) bytes spill stores",
        "local": r"(\d+) bytes stack",
    }  # fmt: skip
    return {k: int((re.search(p, done.stderr) or [0, 0])[1]) for k, p in patterns.items()}


def traced(work: Workload, dtype: str) -> Func:
    """The program of a workload's value and gradient."""
    args = work.make(np.random.default_rng(0), 40, dtype).values()
    f = adc.value_and_grad(adc.compile(work.text(dtype)), wrt=work.wrt)
    return f._trace(f._describe(tuple(args), {})[0]).func


def prove(work: Workload, dtype: str, arch: tuple[int, int], folder: Path, every: bool, record: Any) -> None:
    """No kernel spills; some functions, as sin, have local memory of their own."""
    for name, found in assembled(traced(work, dtype), arch, folder, every):
        record(f"{work.name} {dtype} {name} {arch}", found)
        print(f"{work.name:<12}{dtype:<9}{name:<24}{arch} {found}")
        assert found is None or found["spills"] == 0, (name, found)


@pytest.mark.parametrize("arch", ARCHS, ids=lambda arch: f"sm_{arch[0]}{arch[1]}")
@pytest.mark.parametrize("work", WORKLOADS, ids=lambda work: work.name)
def test_the_kernels_of_the_workloads_spill_nothing(
    work: Workload, arch: tuple[int, int], tmp_path: Path, record_property: Any
) -> None:
    prove(work, work.dtypes[0], arch, tmp_path, False, record_property)


@pytest.mark.parametrize("kind", ["float64", "float32"])
def test_the_kernels_that_are_not_generated_assemble(kind: str, tmp_path: Path) -> None:
    from numba import cuda
    from numba.cuda import types

    from adcompiler.targets.cuda import product, program, ptx, scatter
    from adcompiler.targets.cuda.device import copies

    number, whole = getattr(types, kind), types.int64
    row, places, matrix = types.Array(number, 1, "C"), types.Array(whole, 1, "C"), types.Array(number, 2, "C")
    kernels = {
        "count_digits": (places, whole, places),
        "add_before": (places, places),
        "move_digits": (places, row, whole, places, places, places, row),
        "add_runs": (places, row, whole, row, places, row),
        "add_atomically": (places, row, row),
        "fill": (row, number),
    }
    made = {name: (scatter.routine(name), signature) for name, signature in kernels.items()}
    made |= {op: (program.add_slices(op), (matrix, row)) for op in program.STEPS}
    loose = types.Array(number, 2, "A")
    made["copy"] = copies._kernel(2), (loose, matrix)
    made["copy_row"] = copies._kernel(1, (0,), (2,)), (loose, matrix, places)
    made["add_slices_to_row"] = program.add_slices("sum", (1,)), (matrix, matrix, places)
    for op in ("matmul", "matmul_nt", "matmul_tn"):
        made[op] = product._kernel(op, kind), (matrix, loose, matrix, *(whole,) * 3)
    for name, (kernel, signature) in made.items():
        with ptx._device((8, 0)):
            text, _ = cuda.compile_ptx(kernel.py_func, signature, cc=(8, 0))
        path = tmp_path / f"{name}.ptx"
        path.write_text(re.sub(r"\.version \S+", ".version 7.8", text), "utf-8")
        found = resources(path, (8, 0)) if PTXAS else None
        print(f"{name:<24}{kind} {found}")
        assert found is None or found["spills"] == 0


def test_memory_is_spare_when_neither_an_array_nor_a_view_of_it_is_held() -> None:
    from numba.cuda.cudadrv.driver import binding

    from adcompiler.targets.cuda.device import memory

    made: list[SimpleNamespace] = []

    def memalloc(size: int) -> SimpleNamespace:
        made.append(SimpleNamespace(device_pointer=binding.CUdeviceptr(4096 * (len(made) + 1))))
        return made[-1]

    context = SimpleNamespace(
        device=SimpleNamespace(id=-1), memalloc=memalloc, get_memory_info=lambda: SimpleNamespace(total=2**14)
    )

    def taken() -> Any:
        return memory.pooled_array(context, (100,), np.dtype(np.float64), 0)

    def address(array: Any) -> int:
        return int(array.gpu_data.device_pointer)

    array = taken()
    row = array._do_getitem(slice(2, 5))
    assert address(row) == address(array) + 16
    del array
    other = taken()
    assert address(other) == 2 * 4096
    del row
    assert address(taken()) == 4096  # and nobody holds it again
    three = [taken(), taken(), other]
    del other, three  # too many to keep
    assert memory.SPARE.size == 2 * 1024
    assert memory.SPARE.clear()
    memory.SPARE.most = 0


DECISIONS = {
    "elements": "[max([b[l] * c[i, l] + u[l] for l in range(len(b))]) for i in range(len(c))]",
    "short sums": "[min([sum(c[l, 0] * e + u[i] for e in (b[0], b[1])) for l in range(len(c))]) for i in "
    "range(len(u))]",
    "between": "max((b * c + u) * 2, axis=1)",
    "loop": "u\n    for row in c:\n        r = r + max(b * row + r)",
    "differences": "max(b * c + u) - (b * c + u)",
    "orders": "where(b * c + u >= max(b * c + u), u, b)",
    "roundings": "floor(b * c + u) - (b * c + u)",
}
GRADIENTS = ("elements", "between", "loop")  # those of the others have products of their own


@pytest.mark.parametrize("fast", [False, True])
@pytest.mark.parametrize("kind", ["float64", "float32"])
@pytest.mark.parametrize("name", DECISIONS)
def test_what_decides_rounds_alike(name: str, kind: str, fast: bool) -> None:
    """A product and a sum are one operation in no kernel, else nobody is equal to another's maximum."""
    from adcompiler.targets.cuda import ptx
    from adcompiler.targets.cuda.backend import of_device

    args = tuple(np.ones(shape, kind) for shape in ((4,), (4,), (3, 4)))
    f = adc.compile(f"def f(b, u, c):\n    r = {DECISIONS[name]}\n    return sum(r)")
    f = adc.value_and_grad(f, wrt="u") if name in GRADIENTS else f
    found = of_device(optimised(f._trace(f._describe(args, {})[0]).func))
    operations = re.findall(
        r"\b(?:add|mul|fma)\.[\w.]+", "".join(k.ptx for k in ptx.compiled(found, fast=fast))
    )
    floats = {o.replace(".ftz", "") for o in operations if ".f" in o}
    bits = kind.removeprefix("float")
    assert f"mul.rn.f{bits}" in floats
    # Other sums are those of the gradient, and of the results; `sub` is an addition with another sign.
    assert floats <= {f"mul.rn.f{bits}", f"add.rn.f{bits}", f"add.f{bits}"}


@pytest.mark.parametrize("stored", ["float16", "int16"])  # int16 are the bits of bfloat16
@pytest.mark.parametrize(
    "work", [w for w in WORKLOADS if w.name in ("gelu", "pairwise")], ids=lambda w: w.name
)
def test_kernels_read_storage_of_16_bits(work: Workload, stored: str, tmp_path: Path) -> None:
    from numba import cuda
    from numba.cuda import types

    from adcompiler.targets.cuda import ptx
    from adcompiler.targets.cuda.backend import of_device
    from adcompiler.targets.cuda.emit.device_emitter import DeviceEmitter

    emitter = DeviceEmitter(of_device(optimised(traced(work, "float32"))), half=True)
    inputs = {
        emitter.labels[i]: types.Array(getattr(types, stored), i.rank, "C") for i in emitter.func.inputs
    }
    for text in ptx.texts(emitter, True):
        known = ptx._types(emitter) | inputs
        with ptx._device((9, 0)):
            kernel = ptx.loaded(text.source, text.name).py_func
            found, _ = cuda.compile_ptx(kernel, tuple(known[p] for p in text.params), cc=(9, 0))
        path = tmp_path / f"{text.name}.ptx"
        path.write_text(re.sub(r"\.version \S+", ".version 7.8", found), "utf-8")
        assert "ld.global" in found
        assert not PTXAS or resources(path, (9, 0))["spills"] == 0


@pytest.mark.parametrize("name", ["loop", "while"])
def test_kernels_of_iterations_read_their_number(name: str, tmp_path: Path) -> None:
    """Where the host launches the iterations: numbers of iterations are no parameters."""
    from numba import cuda

    from adcompiler.targets.cuda import ptx
    from adcompiler.targets.cuda.backend import of_device
    from adcompiler.targets.cuda.emit.device_emitter import DeviceEmitter

    (source, make) = next((s, m) for n, s, m in FEATURES if n == name)
    f = adc.value_and_grad(adc.compile(source))
    made = of_device(optimised(f._trace(f._describe(make(np.random.default_rng(0)), {})[0]).func))
    emitter = DeviceEmitter(made, hosted=True)
    reads = 0
    for text in ptx.texts(emitter, True):
        assert not any(param.startswith("iteration") for param in text.params)
        reads += "iteration" in text.source
        known = ptx._types(emitter)
        with ptx._device((9, 0)):
            kernel = ptx.loaded(text.source, text.name).py_func
            found, _ = cuda.compile_ptx(kernel, tuple(known[p] for p in text.params), cc=(9, 0))
        path = tmp_path / f"{text.name}.ptx"
        path.write_text(re.sub(r"\.version \S+", ".version 7.8", found), "utf-8")
        assert not PTXAS or resources(path, (9, 0))["spills"] == 0
    assert reads >= 3


@pytest.mark.parametrize("arch", ARCHS, ids=lambda arch: f"sm_{arch[0]}{arch[1]}")
def test_kernels_read_rows_from_tiles(arch: tuple[int, int], tmp_path: Path) -> None:
    (source,) = [s for name, s, _ in FEATURES if name == "rows of points"]
    f = adc.compile(source)
    func = f._trace(f._describe((np.ones((3, 2)), np.ones((4, 2)), np.ones(4)), {})[0]).func
    found = dict(assembled(func, arch, tmp_path, True))
    assert "nest0_tiled" in found
    for name, used in found.items():
        print(f"{name:<24}{arch} {used}")
        assert used is None or used["spills"] == 0


@pytest.mark.parametrize("stored", ["float16", "int16"])
def test_kernels_store_results_of_16_bits(stored: str, tmp_path: Path) -> None:
    from numba import cuda
    from numba.cuda import types

    from adcompiler.targets.cuda import program, ptx
    from adcompiler.targets.cuda.backend import of_device
    from adcompiler.targets.cuda.device import copies
    from adcompiler.targets.cuda.emit.device_emitter import DeviceEmitter

    x, y = np.ones(3, np.float32), np.ones((3, 2), np.float32)
    f = adc.compile("tanh(x[:, None] * y), sum(y, axis=0), sum(y * x[:, None], axis=1)", args="x y")
    made = of_device(optimised(f._trace(f._describe((x, y), {})[0]).func))
    func = made.func
    emitter = DeviceEmitter(made, half=True, narrow=range(len(func.results)))
    assert emitter.narrowed == set(func.results)
    half, single = getattr(types, stored), types.float32
    outs = {emitter.labels[r]: types.Array(half, r.rank, "C") for r in func.results}
    kernels: list[tuple[Any, Any]] = []
    for text in ptx.texts(emitter, True):
        known = ptx._types(emitter) | outs
        kernels.append((ptx.loaded(text.source, text.name), tuple(known[p] for p in text.params)))
    parts = types.Array(single, 2, "C")
    kernels.append((program.add_slices("sum"), (parts, types.Array(half, 1, "C"))))
    kernels.append((copies._kernel(2), (parts, types.Array(half, 2, "A"))))
    stores = 0
    for k, (kernel, signature) in enumerate(kernels):
        with ptx._device((9, 0)):
            found, _ = cuda.compile_ptx(kernel.py_func, signature, cc=(9, 0))
        path = tmp_path / f"{k}.ptx"
        path.write_text(re.sub(r"\.version \S+", ".version 7.8", found), "utf-8")
        stores += len(re.findall(r"st\.global\.[ub]16", found))
        assert not PTXAS or resources(path, (9, 0))["spills"] == 0
    assert stores >= 4


@pytest.mark.slow
@pytest.mark.parametrize("arch", ARCHS, ids=lambda arch: f"sm_{arch[0]}{arch[1]}")
@pytest.mark.parametrize("work", WORKLOADS, ids=lambda work: work.name)
def test_none_of_their_kernels_spills(
    work: Workload, arch: tuple[int, int], tmp_path: Path, record_property: Any
) -> None:
    for dtype in work.dtypes:
        prove(work, dtype, arch, tmp_path, True, record_property)


@pytest.mark.slow
@pytest.mark.parametrize("text", CASES, ids=lambda text: program(text).name)
def test_the_kernels_of_test_programs_assemble(text: str, tmp_path: Path) -> None:
    _, joint = next(orders(program(text)))
    for name, found in assembled(joint, (7, 5), tmp_path, False):
        print(f"{joint.name:<30}{name:<24}{found}")


@pytest.mark.slow
@pytest.mark.parametrize("arch", ARCHS, ids=lambda arch: f"sm_{arch[0]}{arch[1]}")
@pytest.mark.parametrize("feature", FEATURES, ids=lambda feature: feature[0])
def test_every_kernel_of_the_features_assembles(feature: Any, arch: tuple[int, int], tmp_path: Path) -> None:
    _, source, make = feature
    args = make(np.random.default_rng(0))
    f = adc.compile(source)
    types = f._describe(args, {})[0]
    first = f._trace(types).func
    if not first.results[0].rank:
        gradient = adc.value_and_grad(f)
        first = gradient._trace(types).func
    for name, found in assembled(first, arch, tmp_path, True):
        print(f"{feature[0]:<20}{name:<24}{arch} {found}")


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["f64", "f32", "i64"])
@pytest.mark.parametrize("name", TABLE)
def test_every_primitive_assembles(name: str, dtype: Dtype, tmp_path: Path) -> None:
    entry = TABLE[name]
    kinds = (
        ("integer", "arithmetic", "bool") if dtype == "i64" else ("arithmetic", "bool", "float", "logical")
    )
    if entry.kind not in kinds:
        pytest.skip("not of this type")
    size = Size(0)
    inputs = tuple(Input(k, dtype, (size,)) for k in range(len(entry.params)))
    args: list[Element] = [Read(i, (Index(0),)) for i in inputs]
    if entry.kind == "logical":
        args = [apply("greater", a, const(0, dtype)) for a in args]
    if entry.orders is not None:
        args[0] = const(2, dtype)
    result = Map((size,), apply(name, *args))
    func = Func(name, inputs, tuple("abcd"[: len(inputs)]), (result,), ("r",), ("n",))
    for kernel, found in assembled(func, (9, 0), tmp_path, False):
        print(f"{name:<20}{dtype} {kernel} {found}")
