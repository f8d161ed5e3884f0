"""Two memory operations that kernels need and numba does not offer.

Neither checks its positions: the kernels must. numba's cache detects only changes of a kernel's own file, so touch the
files with kernels after a change here.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils
from numba.extending import intrinsic

from penstock.columns.kernel_compilation import INT, NOTHING


def _generate_copy(
    _typing_context: Any, target: Any, target_position: Any, source: Any, source_position: Any, length: Any
) -> tuple[Any, Any]:
    """memcpy between two byte arrays: much faster than a loop over bytes, and cacheable, unlike a foreign pointer."""
    signature = NOTHING(target, INT, source, INT, INT)
    memcpy: Any = cgutils.raw_memcpy

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        into = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        out_of = context.make_array(signature.args[2])(context, builder, arguments[2]).data
        memcpy(builder, builder.gep(into, [arguments[1]]), builder.gep(out_of, [arguments[3]]), arguments[4], 1)
        return context.get_dummy_value()

    return signature, generate


def _generate_prefetch(_typing_context: Any, source: Any, position: Any) -> tuple[Any, Any]:
    """Prefetches bytes into the processor cache. A hint: it cannot fail, whatever the address is."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        int32 = ir.IntType(32)
        insert_function: Any = cgutils.get_or_insert_function
        instruction = insert_function(
            builder.module,
            ir.FunctionType(ir.VoidType(), [data.type, int32, int32, int32]),
            "llvm.prefetch.p0",
        )
        for_reading, keep_near, data_cache = int32(0), int32(3), int32(1)
        builder.call(instruction, [builder.gep(data, [arguments[1]]), for_reading, keep_near, data_cache])
        return context.get_dummy_value()

    return NOTHING(source, INT), generate


copy_bytes: Any = intrinsic(_generate_copy)
prefetch: Any = intrinsic(_generate_prefetch)
