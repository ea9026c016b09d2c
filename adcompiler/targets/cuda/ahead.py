"""Ahead-of-time kernels: PTX or machine code in files, and a manifest of how to launch them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from adcompiler.errors import Error
from adcompiler.ir.nodes import Func
from adcompiler.targets.cuda.backend import of_device, require_compiler

ARRAY = (
    "an array of rank r is 5 + 2 r parameters of 64 bits: 0, 0, how many elements, bytes an element, its "
    "address, r lengths, r strides in bytes; arrays are contiguous"
)
ORDER = (
    "launch the kernels in this order on one stream: a nest on a row of blocks of a multiple of 32 threads, "
    "as many as its _blocks says; a block on one block; a scatter's values are to be added up at its places, "
    "whose order is the sum's"
)


def parsed_arch(text: str) -> tuple[int, int]:
    """A compute capability, such as sm_90, as a pair."""
    found = re.fullmatch(r"(?:sm_)?(\d+)(\d)", text)
    if found is None:
        raise Error(f"unknown architecture {text!r}", remedy="write sm_80 or sm_90")
    return int(found[1]), int(found[2])


def build(functions: Mapping[str, Func], folder: Path, arch: tuple[int, int], forms: list[str]) -> list[Path]:
    """Write the kernels of functions in these forms, "ptx" and "cubin"; returns the files."""
    require_compiler()
    from adcompiler.targets.cuda.emit.device_emitter import DeviceEmitter
    from adcompiler.targets.cuda.emit.steps import HostLoop
    from adcompiler.targets.cuda.ptx import compiled

    folder.mkdir(parents=True, exist_ok=True)
    paths: list[Path] = []
    manifest: dict[str, Any] = {"arrays": ARRAY, "order": ORDER, "functions": {}}
    for name, func in functions.items():
        kernels = manifest["functions"][name] = []
        if any(isinstance(step, HostLoop) for step in DeviceEmitter(of_device(func)).steps):
            raise Error(
                f"{name} computes lengths in a loop, whose iterations the host launches",
                remedy="call it from Python, or build it for the CPU",
            )
        for kernel in compiled(of_device(func), arch):
            kernels.append({"kernel": kernel.name, "parameters": dict(kernel.params)})
            for form in forms:
                paths.append(folder / f"{name}.{kernel.name}.{form}")
                made = kernel.ptx.encode() if form == "ptx" else assembled(kernel.ptx, arch)
                paths[-1].write_bytes(made)
    paths.append(folder / f"{next(iter(functions))}.cuda.json")
    paths[-1].write_text(json.dumps(manifest, indent=1) + "\n", "utf-8")
    return paths


def assembled(ptx: str, arch: tuple[int, int]) -> bytes:
    """PTX assembled to machine code."""
    from cuda.core import Linker, LinkerOptions, ObjectCode

    options = LinkerOptions(arch=f"sm_{arch[0]}{arch[1]}")
    made = Linker(ObjectCode.from_ptx(ptx.encode()), options=options).link("cubin")
    return bytes(made.code)
