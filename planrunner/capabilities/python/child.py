"""The process in which Python of a project runs. It is started as a script, by whatever interpreter the project uses,
and so imports nothing of planrunner: the order comes as JSON on standard input, the answer goes as JSON into a file."""

from __future__ import annotations

import asyncio
import importlib.util
import inspect
import json
import linecache
import os
import resource
import sys
import traceback
import types
from typing import Any


def _beside(name: str) -> Any:
    """The module of this folder, which is no place that the project's modules are looked for in."""
    path = os.path.join(os.path.dirname(os.path.realpath(__file__)), f"{name}.py")
    spec = importlib.util.spec_from_file_location(f"planrunner_{name}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


_data = _beside("data")
Unfit = _data.Unfit


def main() -> int:
    order = json.load(sys.stdin)
    _arrange(order["directory"])
    answer = answered(order)
    _flush()
    _write(order["result"], answer, order["limit"])
    return 1 if answer["failure"] else 0


def answered(order: dict[str, Any]) -> dict[str, Any]:
    """Failure class, message and outputs of what was ordered."""
    try:
        return {"failure": "", "message": "", "outputs": _data.outputs_of(_result(order))}
    except Unfit as unfit:
        return {**_failed(unfit.failure, str(unfit)), "rule": unfit.rule}
    except SystemExit as end:
        return _exited(end.code)
    except MemoryError:
        return _failed("logic", f"ran out of memory: it may hold {order['memory'] >> 20} MiB")
    except RecursionError as error:
        return _failed("logic", f"RecursionError: {error}", error)
    except KeyboardInterrupt:
        return _failed("transient", "was interrupted")
    except BaseException as error:
        return _failed("logic", _headline(error, order["directory"]), error)


def _result(order: dict[str, Any]) -> Any:
    kind, target, args = order["kind"], order["target"], order["args"]
    path, data = _content(target, order["directory"]) if kind == "file" else ("", b"")
    if order.get("guard"):
        refused = _beside("verdicts").refusal(order["guard"], data if kind == "file" else _seen(order))
        if refused:
            raise Unfit(refused[0], "policy", refused[1])
    if order["memory"]:
        _bound(order["memory"])
    if kind == "function":
        return _called(_function(target, order["directory"]), args)
    if kind == "file":
        return _executed(compile(data, path, "exec", dont_inherit=True), path, args)
    linecache.cache["<code>"] = (len(target), None, target.splitlines(keepends=True), "<code>")
    return _executed(compile(target, "<code>", "exec", dont_inherit=True), "<code>", args)


def _seen(order: dict[str, Any]) -> bytes:
    """What was looked at before this process started, as it is now."""
    if order["kind"] == "code":
        return bytes(order["target"], "utf-8", "surrogatepass")
    return _content(order["guard"]["name"], order["directory"])[1]


def _content(name: str, directory: str) -> tuple[str, bytes]:
    path = _inside(os.path.join(directory, name), directory, name)
    with open(path, "rb") as file:
        return path, file.read()


def _executed(code: types.CodeType, path: str, args: dict[str, Any]) -> Any:
    module = types.ModuleType("__main__")
    module.__dict__.update(__file__=path, args=args, result=None)
    sys.modules["__main__"] = module
    sys.argv[:] = [path]
    exec(code, module.__dict__)  # noqa: S102 - running the project's code is what this process is for
    return module.__dict__.get("result")


def _called(function: Any, args: dict[str, Any]) -> Any:
    result = function(**_data.arguments(function, args))
    if inspect.iscoroutine(result):
        return asyncio.run(result)
    return result


def _function(target: str, directory: str) -> Any:
    place, _, name = target.rpartition(":")
    module = _loaded(place, directory) if place.endswith(".py") else _imported(place, directory)
    found: Any = getattr(module, name.split(".")[0], None)
    for part in name.split(".")[1:]:
        found = getattr(found, part, None) if isinstance(found, type) else None
    if not callable(found):
        raise Unfit(f"{place} has no function `{name}`")
    return found


def _loaded(place: str, directory: str) -> Any:
    path = _inside(os.path.join(directory, place), directory, place)
    sys.path.insert(1, os.path.dirname(path))
    name = os.path.splitext(os.path.basename(path))[0]
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _imported(place: str, directory: str) -> Any:
    """The module, which is looked for before it is imported: what a plan names runs only if it is the project's."""
    if not all(part.isidentifier() for part in place.split(".")):
        raise Unfit(f"`{place}` is no name of a module")
    parts = place.split(".")
    for count in range(1, len(parts)):  # looking for a module imports the packages around it
        spec = _found(".".join(parts[:count]))
        if not _is_only_folders(spec):
            _inside(_origin(spec), directory, place)
    _inside(_origin(_found(place)), directory, place)
    return importlib.import_module(place)


def _found(name: str) -> Any:
    """Where a module is, of which the packages around it have been found to be the project's."""
    try:
        spec = importlib.util.find_spec(name)
    except ModuleNotFoundError as error:
        if not (error.name and (name == error.name or name.startswith(f"{error.name}."))):
            raise
        spec = None
    if spec is None:
        raise Unfit(f"there is no module `{name}` in the working directory")
    return spec


def _origin(spec: Any) -> str:
    return spec.origin or "" if spec.has_location else ""


def _is_only_folders(spec: Any) -> bool:
    """Whether a package is nothing but folders, so that importing it runs nothing."""
    return not _origin(spec) and spec.origin in (None, "namespace") and bool(spec.submodule_search_locations)


def _inside(path: str, directory: str, name: str) -> str:
    real, root = os.path.realpath(path), os.path.realpath(directory)
    if not path or not real.startswith(root.rstrip("/") + "/"):
        raise Unfit(f"{name} is outside the working directory", "policy", "files.beneath")
    if not os.path.isfile(real):
        raise Unfit(f"there is no file {name}")
    return real


def _arrange(directory: str) -> None:
    """The project, not this script's folder, is where modules are found first."""
    own = os.path.dirname(os.path.realpath(__file__))
    sys.path[:] = [folder for folder in sys.path if os.path.realpath(folder or ".") not in (own, directory)]
    source = os.path.join(directory, "src")
    sys.path[:0] = [directory, source] if os.path.isdir(source) else [directory]


def _bound(memory: int) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (memory if hard < 0 else min(memory, hard), hard))


def _exited(code: Any) -> dict[str, Any]:
    """What ``sys.exit`` stands for."""
    if code is None or code == 0:
        return {"failure": "", "message": "", "outputs": {}}
    if code == 75:
        return _failed("transient", "exit code 75 (try again later)")
    return _failed("logic", f"exit code {code}" if isinstance(code, int) else str(code))


def _failed(failure: str, message: str, error: BaseException | None = None) -> dict[str, Any]:
    if error is not None:
        _show(error)
    elif message:
        sys.stderr.write(f"{message}\n")
    return {"failure": failure, "message": message[:4000], "outputs": {}}


def _show(error: BaseException) -> None:
    """The part of the traceback that is the project's."""
    text = "".join(traceback.format_exception(type(error), error, _own_part(error), limit=-30))
    sys.stderr.write(text[-16384:])


def _own_part(error: BaseException) -> Any:
    trace = error.__traceback__
    while trace is not None and _is_foreign(trace.tb_frame.f_code.co_filename):
        trace = trace.tb_next
    return trace


def _is_foreign(name: str) -> bool:
    return name == __file__ or name.startswith("<frozen ")


def _headline(error: BaseException, directory: str) -> str:
    trace, place = _own_part(error), ""
    while trace is not None:
        name = trace.tb_frame.f_code.co_filename
        if name == "<code>" or os.path.realpath(name).startswith(os.path.realpath(directory) + "/"):
            short = name if name == "<code>" else os.path.relpath(os.path.realpath(name), os.path.realpath(directory))
            place = f" ({short}, line {trace.tb_lineno})"
        trace = trace.tb_next
    said = str(error)
    return f"{type(error).__name__}{': ' + said[:2000] if said else ''}{place}"


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):
            continue  # the project closed it


def _write(path: str, answer: dict[str, Any], limit: int) -> None:
    data = json.dumps(answer, allow_nan=False).encode()
    if len(data) > limit:
        why = f"the result is larger than {limit >> 20} MiB; write it to a file and declare an artifact"
        answer.update(failure="logic", message=why, outputs={})
        data = json.dumps(answer).encode()
    new = os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    handle = os.open(path, os.O_WRONLY | (os.O_TRUNC if path.startswith("/proc/") else new), 0o600)
    with open(handle, "wb") as file:
        file.write(data)


if __name__ == "__main__":
    sys.exit(main())
