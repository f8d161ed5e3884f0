"""Python functions that a pipeline names: `module:function`.

Owns how they are found and how many arguments they take. The directory of the pipeline's file comes first, as it does
for a program that Python is given.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from penstock.pipeline.declaration.choice import nearest


class FunctionMissing(Exception):
    """`str(error)` says what is not there."""


def load_function(reference: str, directory: Path) -> Callable[..., Any]:
    """Imports the module, with `directory` on the path from now on: its own imports may come later."""
    module_name, _, function_name = reference.partition(":")
    if str(directory) not in sys.path:
        sys.path.insert(0, str(directory))
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as missing:
        if missing.name != module_name.partition(".")[0] and missing.name != module_name:
            raise FunctionMissing(f"the module {module_name} needs {missing.name}, which is not installed") from missing
        raise FunctionMissing(
            f"there is no module {module_name}, neither beside the pipeline nor installed"
        ) from missing
    except Exception as failure:  # whatever the author's module does when it is imported
        raise FunctionMissing(
            f"the module {module_name} cannot be imported: {type(failure).__name__}: {failure}"
        ) from failure
    function = getattr(module, function_name, None)
    if not callable(function):
        resembled = nearest(function_name, [name for name in vars(module) if not name.startswith("_")])
        hint = f" (did you mean '{resembled}'?)" if resembled else ""
        raise FunctionMissing(f"the module {module_name} has no function {function_name}{hint}")
    return function  # type: ignore[no-any-return]


def argument_count(function: Callable[..., Any]) -> int:
    """How many positional arguments it takes, at most 2; the number above that does not matter."""
    parameters = inspect.signature(function).parameters.values()
    if any(parameter.kind is parameter.VAR_POSITIONAL for parameter in parameters):
        return 2
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return min(2, sum(parameter.kind in positional for parameter in parameters))
