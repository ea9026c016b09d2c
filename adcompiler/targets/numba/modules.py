"""Generated numba modules, with machine code in our own cache.

numba's cache unpickles whatever is in its files. Ours does so only after an entry's digest has matched
(`store.py`); damaged entries are recompiled and replaced.
"""

from __future__ import annotations

import hashlib
import pickle
import sys
from collections.abc import Callable
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


def load(source: str) -> ModuleType:
    """Generated `source` as a module.

    The module is registered, because numba's machine code looks up its module by name.
    """
    key = f"{_versions()}\n{source}"
    name = f"_adcompiler_kernel_{hashlib.sha256(key.encode()).hexdigest()[:32]}"
    with _LOCK.lock:
        if name not in sys.modules:
            module = ModuleType(name)
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
    from numba.core.caching import FunctionCache
    from numba.core.ccallback import CFunc

    made: Any = CFunc(module.entry, sigutils.normalize_signature(module.signature), {}, {})
    made._cache = _cache_class(FunctionCache)(module.entry, module.__key__)
    with compiling("a callback"):
        made.compile()
    return made


def _connect(module: ModuleType, key: str) -> None:
    """Let each function of a module that numba compiles cache its machine code in our entries."""
    from numba.core.caching import FunctionCache

    vars(module)["__key__"] = key
    for made in list(vars(module).values()):
        function = getattr(made, "py_func", None)
        if function is not None and function.__module__ == module.__name__:
            kind = sys.modules[type(made).__module__]
            base = getattr(kind, "CUDACache", FunctionCache)  # for CUDA functions
            made._cache = _cache_class(base)(function, key)


@cache
def _cache_class(base: Any) -> Callable[[Any, str], Any]:
    """A numba cache class that stores our entries instead of files."""

    class Entries(base):  # type: ignore[misc]
        """The machine code of one function of a generated module, one entry per list of argument types."""

        cache_path = None

        def __init__(self, function: Any, key: str) -> None:
            self._name, self._impl = repr(function), object.__new__(base._impl_class)
            self._key = f"{key}\n{function.__qualname__}"
            self.enable()

        def flush(self) -> None:
            """Do nothing: stale entries are never found."""

        def _entry(self, signature: Any, codegen: Any) -> str:
            return f"{self._key}\n{signature!r}\n{codegen.magic_tuple()}"

        def _load_overload(self, signature: Any, target: Any) -> Any:
            content = store.find(self._entry(signature, target.codegen()), ENDING)
            return None if content is None else self._impl.rebuild(target, pickle.loads(content))

        def _save_overload(self, signature: Any, data: Any) -> None:
            from numba.core.serialize import dumps

            library = getattr(data, "library", None)  # CUDA kernels have none
            if not getattr(data, "lifted", ()) and not getattr(library, "has_dynamic_globals", False):
                store.keep(self._entry(signature, data.codegen), ENDING, dumps(self._impl.reduce(data)))

    return Entries


@cache
def _versions() -> str:
    """The versions of compilers, and of our modules that are compiled into kernels."""
    import llvmlite
    import numba

    from adcompiler.kernels.routines import library
    from adcompiler.targets.numba import intrinsics, special

    modules = (intrinsics, library, special, special.series, special.bessel)
    files = (module.__file__ for module in modules)
    ours = hashlib.sha256(b"".join(Path(str(f)).read_bytes() for f in files)).hexdigest()
    return f"{numba.__version__} {llvmlite.__version__} {sys.implementation.cache_tag} {ours}"
