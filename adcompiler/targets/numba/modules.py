"""Generated numba modules, with machine code in our own cache.

numba's cache unpickles whatever is in its files. Ours does so only after an entry's digest has matched
(`store.py`); damaged entries are recompiled and replaced.
"""

from __future__ import annotations

import hashlib
import pickle
import sys
from functools import cache
from pathlib import Path
from threading import RLock
from types import ModuleType
from typing import Any

from adcompiler import store
from adcompiler.fork import Locked
from adcompiler.progress import compiling

ENDING = ".nbc"
_LOCK = Locked(RLock)


def load(source: str, **names: Any) -> ModuleType:
    """Generated `source` as a module that has these `names`, which follow from the source.

    The module is registered, because numba's machine code looks up its module by name.
    """
    key = f"{_versions()}\n{source}"
    name = f"_adcompiler_kernel_{hashlib.sha256(key.encode()).hexdigest()[:32]}"
    with _LOCK.lock:
        if name not in sys.modules:
            module = ModuleType(name)
            vars(module).update(names)
            sys.modules[name] = module
            try:
                exec(compile(source, f"<{name}>", "exec"), vars(module))  # our own text, mangled names
                _connect(module, key)
            except BaseException:
                del sys.modules[name]
                raise
        return sys.modules[name]


def callback(module: ModuleType) -> Any:
    """The C callback of a module's function `entry`, which has the type `signature`."""
    from numba.core import sigutils
    from numba.core.ccallback import CFunc

    made: Any = CFunc(module.entry, sigutils.normalize_signature(module.signature), {}, {})
    made._cache = Entries(module.entry, module.__key__)
    with compiling("a callback"):
        made.compile()
    return made


def _connect(module: ModuleType, key: str) -> None:
    """Let each function of a module that numba compiles cache its machine code in our entries."""
    vars(module)["__key__"] = key
    for made in list(vars(module).values()):
        function = getattr(made, "py_func", None)
        if function is not None and function.__module__ == module.__name__:
            on_device = type(made).__module__.startswith("numba.cuda.")
            made._cache = (DeviceEntries if on_device else Entries)(function, key)


class Entries:
    """The machine code of one function of a generated module, one entry per list of argument types.

    It has the methods that numba's dispatchers call, and inherits nothing: numba's own cache classes have
    attributes that belong to their files.
    """

    cache_path = None

    def __init__(self, function: Any, key: str) -> None:
        self._key = f"{key}\n{function.__qualname__}"
        self._enabled = True

    def load_overload(self, signature: Any, target: Any) -> Any:
        """The compiled function of an entry; None if there is none."""
        target.refresh()
        found = store.find(self._entry(signature, target.codegen()), ENDING) if self._enabled else None
        return None if found is None else self._rebuilt(target, pickle.loads(found))

    def save_overload(self, signature: Any, data: Any) -> None:
        """Keep a compiled function, unless its code has addresses of this process."""
        from numba.core.serialize import dumps

        if self._enabled and not data.lifted and not data.library.has_dynamic_globals:
            self._keep(signature, data.codegen, dumps(data._reduce()))

    def enable(self) -> None:
        """Keep and use machine code."""
        self._enabled = True

    def disable(self) -> None:
        """Keep nothing from now on."""
        self._enabled = False

    def flush(self) -> None:
        """Do nothing: stale entries are never found."""

    def _entry(self, signature: Any, codegen: Any) -> str:
        return f"{self._key}\n{signature!r}\n{codegen.magic_tuple()}"

    def _keep(self, signature: Any, codegen: Any, pickled: bytes) -> None:
        store.keep(self._entry(signature, codegen), ENDING, pickled)

    def _rebuilt(self, target: Any, state: Any) -> Any:
        from numba.core.compiler import CompileResult

        return CompileResult._rebuild(target, *state)


class DeviceEntries(Entries):
    """The same for kernels of CUDA, whose results and versions are numba-cuda's."""

    def load_overload(self, signature: Any, target: Any) -> Any:
        from numba.cuda.utils import numba_target_override

        with numba_target_override():
            return super().load_overload(signature, target)

    def save_overload(self, signature: Any, data: Any) -> None:
        from numba.cuda.serialize import dumps

        if self._enabled:
            self._keep(signature, data.codegen, dumps(data._reduce_states()))

    def _entry(self, signature: Any, codegen: Any) -> str:
        import numba_cuda

        return f"{super()._entry(signature, codegen)}\n{numba_cuda.__version__}"

    def _rebuilt(self, target: Any, state: Any) -> Any:
        from numba.cuda.dispatcher import _Kernel

        return _Kernel._rebuild(**state)


@cache
def _versions() -> str:
    """The versions of compilers, and of our modules that are compiled into kernels."""
    import llvmlite
    import numba

    from adcompiler.kernels.routines import cofactors, decompositions, library
    from adcompiler.targets.numba import intrinsics, special

    matrices = (library, decompositions, cofactors)
    modules = (intrinsics, *matrices, special, special.series, special.bessel, special.incomplete)
    files = (module.__file__ for module in modules)
    ours = hashlib.sha256(b"".join(Path(str(f)).read_bytes() for f in files)).hexdigest()
    return f"{numba.__version__} {llvmlite.__version__} {sys.implementation.cache_tag} {ours}"
