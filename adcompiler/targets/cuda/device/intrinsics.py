"""Device functions of generated kernels, in addition to those of NumPy and `math`."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from types import FunctionType, ModuleType
from typing import Any

from llvmlite import ir
from numba import cuda
from numba.cuda import libdevice, types
from numba.cuda.extending import intrinsic, overload, register_jitable
from numba.cuda.types import uint64

from adcompiler.ops.rules import bessel as _bessel
from adcompiler.ops.rules import incomplete as _incomplete
from adcompiler.ops.rules import series as _series
from adcompiler.targets.cuda.device import mathematics
from adcompiler.targets.cuda.device import mathematics as np
from adcompiler.targets.cuda.device.mathematics import OF_DEVICE, binary

__all__ = ["cuda", "fma", "math", "np", "rsqrt", "select", "uint64"]
WARP = 32
TILE = 256  # iterations of a loop that reads from shared memory
ALL = 0xFFFFFFFF  # the lanes of a whole warp
rsqrt = OF_DEVICE["rsqrt"]


@intrinsic
def select(typingctx: Any, guard: Any, then: Any, otherwise: Any) -> Any:
    """`then if guard else otherwise` without a branch."""
    kind = typingctx.unify_types(then, otherwise)

    def codegen(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> Any:
        condition = context.cast(builder, args[0], signature.args[0], types.boolean)
        sides = [
            context.cast(builder, arg, given, signature.return_type)
            for arg, given in zip(args[1:], signature.args[1:], strict=True)
        ]
        return builder.select(condition, *sides)

    return kind(guard, then, otherwise), codegen


@intrinsic
def fma(typingctx: Any, x: Any, y: Any, z: Any) -> Any:
    """x * y + z, rounded once, in the type common to the operands."""
    kind = typingctx.unify_types(x, y, z)

    def codegen(context: Any, builder: ir.IRBuilder, signature: Any, args: Any) -> Any:
        given = zip(args, signature.args, strict=True)
        return builder.fma(*(context.cast(builder, arg, was, signature.return_type) for arg, was in given))

    return kind(x, y, z), codegen


# -- operations that are not contracted with others -------------------------------------------------


@register_jitable
def _subtract(x: Any, y: Any) -> Any:
    return libdevice.dadd_rn(x, -y)


add_rn, sub_rn = binary(libdevice.dadd_rn, libdevice.fadd_rn), binary(_subtract, libdevice.fsub_rn)
mul_rn, div_rn = binary(libdevice.dmul_rn, libdevice.fmul_rn), binary(libdevice.ddiv_rn, libdevice.fdiv_rn)


# -- float32 from 16 bits --------------------------------------------------------------------------


def wide(x: Any) -> Any:
    """A float32 from its stored form: float16, the bits of bfloat16 as an integer, or float32."""
    raise NotImplementedError


@overload(wide, strict=False)
def _wide(x: Any) -> Callable[[Any], Any]:
    if x == types.int16:
        return lambda x: libdevice.int_as_float(types.int32(types.int32(x) << types.int32(16)))
    return lambda x: types.float32(x)


def narrow(array: Any, x: Any) -> Any:
    """A float32 in the form an array stores: float16, the bits of bfloat16 as an integer, or unchanged."""
    raise NotImplementedError


@overload(narrow, strict=False)
def _narrow(array: Any, x: Any) -> Callable[[Any, Any], Any]:
    if array.dtype == types.float16:
        return lambda array, x: types.float16(x)
    if array.dtype == types.int16 and isinstance(x, types.Float):
        return lambda array, x: _bits_of_bfloat16(types.float32(x))
    return lambda array, x: x


@register_jitable
def _bits_of_bfloat16(x: Any) -> Any:
    """The upper half of a float32, rounded to nearest, ties to even."""
    bits = types.int64(libdevice.float_as_int(x)) & 0xFFFFFFFF
    return types.int16(select(x != x, 0x7FFF, (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16))


# -- steps of reductions ---------------------------------------------------------------------------


@register_jitable
def reduce_add(total: Any, value: Any) -> Any:
    """The sum over the lanes of a warp."""
    return total + value


@register_jitable
def reduce_min(total: Any, value: Any) -> Any:
    """The minimum; NaN if either is."""
    return select(total <= value or total != total, total, value)


@register_jitable
def reduce_max(total: Any, value: Any) -> Any:
    """The maximum; NaN if either is."""
    return select(total >= value or total != total, total, value)


@register_jitable
def _multiply(total: Any, value: Any) -> Any:
    return total * value


def _warp(step: Callable[[Any, Any], Any]) -> Callable[[Any], Any]:
    """The reduction of a value over the lanes of a warp: a butterfly, bitwise equal in all lanes."""

    def reduce(x: Any) -> Any:
        distance = 16
        while distance > 0:
            x = step(x, cuda.shfl_xor_sync(ALL, x, distance))
            distance >>= 1
        return cuda.shfl_sync(ALL, x, 0)

    function: Callable[[Any], Any] = register_jitable(reduce)
    return function


def _block(step: Callable[[Any, Any], Any], warp: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The reduction over a block: its warps, then their results in order, bitwise equal in all threads."""

    def reduce(x: Any) -> Any:
        raise NotImplementedError

    @overload(reduce, strict=False)
    def choose(x: Any) -> Callable[[Any], Any]:
        kind = x

        def function(x: Any) -> Any:
            shared = cuda.shared.array(WARP, kind)
            x = warp(x)
            if cuda.threadIdx.x % WARP == 0:
                shared[cuda.threadIdx.x // WARP] = x
            cuda.syncthreads()
            total = shared[0]
            for k in range(1, (cuda.blockDim.x + WARP - 1) // WARP):
                total = step(total, shared[k])
            cuda.syncthreads()
            return total

        return function

    return reduce


_warp_sum, _warp_prod, _warp_min, _warp_max = map(_warp, (reduce_add, _multiply, reduce_min, reduce_max))
_block_sum, _block_prod = _block(reduce_add, _warp_sum), _block(_multiply, _warp_prod)
_block_min, _block_max = _block(reduce_min, _warp_min), _block(reduce_max, _warp_max)


@register_jitable
def _warp_sync() -> None:
    cuda.syncwarp()


@register_jitable
def _block_sync() -> None:
    cuda.syncthreads()


# -- special functions -----------------------------------------------------------------------------


def _on_device(module: ModuleType, *others: ModuleType) -> ModuleType:
    """The functions of a module of `ops`, and of others that it imports from, for the device, computed in
    float64; float32 is converted."""
    found = ModuleType(module.__name__)
    names = {name: value for m in (*others, module) for name, value in vars(m).items()}
    namespace = names | {"np": mathematics}
    own = {n: f for n, f in names.items() if isinstance(f, FunctionType)}
    for name, function in own.items():
        namespace[name] = FunctionType(function.__code__, namespace, name)
    for name in own:
        setattr(found, name, _either_type(register_jitable(namespace[name])))
    return found


def _either_type(wide: Callable[..., Any]) -> Callable[..., Any]:
    names = ", ".join(inspect.signature(wide).parameters)
    each = ", ".join(f"np.float64({n})" for n in names.split(", "))
    namespace: dict[str, Any] = {"wide": wide, "np": mathematics}
    text = f"def function({names}):\n    raise NotImplementedError\n"
    text += f"def narrow({names}):\n    return np.float32(wide({each}))\n"
    text += f"def call({names}):\n    return wide({names})\n"
    text += f"def choose({names}):\n    return pick({names})\n"
    namespace["pick"] = lambda *kinds: namespace["narrow" if kinds[-1] == types.float32 else "call"]
    exec(text, namespace)  # our own text
    overload(namespace["function"], strict=False)(namespace["choose"])
    found: Callable[..., Any] = namespace["function"]
    return found


series, bessel = _on_device(_series), _on_device(_bessel)
incomplete = _on_device(_incomplete, _series)
