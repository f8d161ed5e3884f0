"""Keeps compiled kernels in the user's cache directory: $XDG_CACHE_HOME/penstock/numba, or ~/.cache/penstock/numba.

Not beside the modules, which is numba's choice: an installation may be read-only or shared, and uninstalling it must
leave nothing behind. The driver and every Python process of Spark call it before they load a kernel.
"""

from __future__ import annotations

import os
from pathlib import Path


def use_kernel_cache() -> None:
    """Call it before the first import of a module of `columns/` that has kernels."""
    from penstock.columns.kernel_compilation import keep_compiled_in

    keep_compiled_in(user_kernel_cache())


def user_kernel_cache() -> str:
    """Empty for a user without a home directory, as in some containers."""
    chosen = os.environ.get("XDG_CACHE_HOME", "")
    try:
        # As the standard says, a relative path is ignored.
        caches = Path(chosen) if os.path.isabs(chosen) else Path.home() / ".cache"
    except RuntimeError:
        return ""
    return str(caches / "penstock" / "numba")
