"""The process in which Python of a project runs. It is started as a script, by whatever interpreter the project uses,
and so imports nothing of planrunner: the order comes as JSON on standard input, the answer goes as JSON into a file.
Arguments become what annotations want, results JSON data."""

from __future__ import annotations

import asyncio
import datetime as dt
import decimal
import enum
import importlib.util
import inspect
import json
import linecache
import os
import pathlib
import resource
import sys
import traceback
import types
import typing
from typing import Any

DEEPEST = 100
"""Levels of a result."""

_NOT_REQUIRED: Any = getattr(typing, "NotRequired", None)
_WRAPPERS = tuple(filter(None, (getattr(typing, name, None) for name in ("Annotated", "NotRequired", "Required"))))
"""What stands around a type; older Pythons do not have all of it."""
_UNIONS = (typing.Union, getattr(types, "UnionType", typing.Union))


class Unfit(Exception):
    """An argument, a result or the order itself is not what it has to be; ``failure`` is the class of the failure,
    ``rule`` the one that refuses what is asked for."""

    def __init__(self, message: str, failure: str = "logic", rule: str = "") -> None:
        super().__init__(message)
        self.failure = failure
        self.rule = rule


def arguments(function: Any, args: dict[str, Any]) -> dict[str, Any]:
    """The arguments as the annotations of the function want them."""
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return args
    hints = _hints(function)
    takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    named = [
        name
        for name, parameter in parameters.items()
        if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
    ]
    needed = [name for name in named if parameters[name].default is inspect.Parameter.empty]
    _check_names(args, needed, [*named, *args] if takes_any else named, "the function", "has no parameter")
    return {name: fitted(value, hints.get(name, Any), f"args.{name}") for name, value in args.items()}


def _hints(what: Any) -> dict[str, Any]:
    try:
        return typing.get_type_hints(what, include_extras=True) if _WRAPPERS else typing.get_type_hints(what)
    except Exception:  # a name that only type checkers know
        given = getattr(what, "__annotations__", {})
        return {name: hint for name, hint in given.items() if not isinstance(hint, str)}


def fitted(value: Any, hint: Any, where: str) -> Any:
    """The JSON value as the annotation wants it; raises Unfit. An annotation that says nothing about data lets all
    pass."""
    origin = typing.get_origin(hint)
    if origin in _WRAPPERS:
        return fitted(value, typing.get_args(hint)[0], where)
    if origin is typing.Literal:
        choices = typing.get_args(hint)
        if not any(type(value) is type(choice) and value == choice for choice in choices):
            raise Unfit(f"`{where}` is {_shown(value)}, and may be {' or '.join(map(json.dumps, choices))}")
        return value
    if origin in _UNIONS:
        return _any_of(value, typing.get_args(hint), where)
    if isinstance(hint, type) and _is_dataclass(hint):
        fields = [field for field in _fields(hint) if field.init]
        needed = [field.name for field in fields if field.default is field.default_factory]  # both are missing
        return hint(**_members(value, hint, needed, [field.name for field in fields], where))
    if isinstance(hint, type) and hasattr(hint, "__total__"):  # a TypedDict
        optional = [name for name, inner in _hints(hint).items() if typing.get_origin(inner) is _NOT_REQUIRED]
        needed = sorted(set(getattr(hint, "__required_keys__", ())).difference(optional))
        return _members(value, hint, needed, list(hint.__annotations__), where)
    if isinstance(hint, type) and issubclass(hint, tuple) and hasattr(hint, "_fields"):
        record: Any = hint
        needed = [name for name in record._fields if name not in record._field_defaults]
        return record(**_members(value, record, needed, list(record._fields), where))
    return _plain(value, origin or hint, typing.get_args(hint), where)


def _is_dataclass(what: Any) -> bool:
    return hasattr(what, "__dataclass_fields__")


def _fields(what: Any) -> Any:
    return sys.modules["dataclasses"].fields(what)  # loaded by the module that made the class


def _any_of(value: Any, hints: tuple[Any, ...], where: str) -> Any:
    problems = []
    for hint in hints:
        try:
            return fitted(value, hint, where)
        except Unfit as unfit:
            problems.append(str(unfit))
    wanted = [_kind(hint) for hint in hints]
    if len({*wanted}) < len(wanted) or any(problem.startswith(f"`{where}.") for problem in problems):
        raise Unfit(problems[-1] if hints[-1] is not type(None) else problems[0])
    raise Unfit(f"`{where}` has to be {' or '.join(wanted)}, found {_shown(value)}")


def _members(value: Any, record: Any, needed: list[str], known: list[str], where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise Unfit(f"`{where}` has to be a map, found {_shown(value)}")
    _check_names(value, needed, known, f"`{where}`", "does not know")
    hints = _hints(record)
    return {name: fitted(item, hints.get(name, Any), f"{where}.{name}") for name, item in value.items()}


def _check_names(given: Any, needed: list[str], known: list[str], what: str, knows_not: str) -> None:
    unknown, missing = [name for name in given if name not in known], [name for name in needed if name not in given]
    if faults := [
        f"{fault} {', '.join(f'`{name}`' for name in names)}"
        for fault, names in ((knows_not, unknown), ("needs", missing))
        if names
    ]:
        raise Unfit(f"{what} {' and '.join(faults)}")


def _plain(value: Any, kind: Any, inner: tuple[Any, ...], where: str) -> Any:
    """A value for one of the types that Python comes with."""
    if kind is None or kind is type(None):
        return value if value is None else _refuse(value, "nothing", where)
    if kind in (int, str, bool):
        return value if type(value) is kind else _refuse(value, _kind(kind), where)
    if kind is float:
        return float(value) if type(value) in (int, float) else _refuse(value, "a number", where)
    if kind in (list, set, frozenset, tuple):
        if not isinstance(value, list):
            _refuse(value, "a list", where)
        hints = list(inner[:1] or (Any,)) * len(value)
        if kind is tuple and inner and inner[-1] is not Ellipsis:
            if len(inner) != len(value):
                _refuse(value, f"a list of {len(inner)}", where)
            hints = list(inner)
        return kind(fitted(item, hint, f"{where}[{at}]") for at, (item, hint) in enumerate(zip(value, hints)))
    if kind is dict:
        if not isinstance(value, dict):
            _refuse(value, "a map", where)
        hint = inner[1] if len(inner) == 2 else Any
        return {name: fitted(item, hint, f"{where}.{name}") for name, item in value.items()}
    if isinstance(kind, type):
        makers: dict[Any, Any] = {
            dt.datetime: dt.datetime.fromisoformat,
            dt.date: dt.date.fromisoformat,
            dt.time: dt.time.fromisoformat,
            decimal.Decimal: decimal.Decimal,
            pathlib.Path: pathlib.Path,
        }
        make = kind if issubclass(kind, enum.Enum) else makers.get(kind)
        if make is None:
            return value
        if not isinstance(value, str) and kind in makers and not (kind is decimal.Decimal and type(value) is int):
            _refuse(value, f"the text of a {kind.__name__}", where)
        try:
            return make(value)
        except (ValueError, ArithmeticError):
            return _refuse(value, f"a {kind.__name__}", where)
    return value


_KINDS: dict[Any, str] = {
    int: "a whole number",
    float: "a number",
    str: "text",
    bool: "true or false",
    list: "a list",
    dict: "a map",
    type(None): "nothing",
}


def _kind(hint: Any) -> str:
    return _KINDS.get(typing.get_origin(hint) or hint) or str(getattr(hint, "__name__", hint))


def _refuse(value: Any, wanted: str, where: str) -> Any:
    raise Unfit(f"`{where}` has to be {wanted}, found {_shown(value)}")


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else text[:59] + "…"


def outputs_of(result: Any) -> dict[str, Any]:
    """The outputs that a result stands for: a mapping or a record by name, anything else as ``value``."""
    if result is None:
        return {}
    data = plain_data(result, "the result", 0)
    return data if isinstance(data, dict) else {"value": data}


def plain_data(value: Any, where: str, depth: int) -> Any:
    """A result as JSON data; raises Unfit for other values."""
    if depth > DEEPEST:
        raise Unfit(f"{where} goes deeper than {DEEPEST} levels, or around in a circle")
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, str):
        return _text(value, where)
    if isinstance(value, float):
        if value - value != 0:
            raise Unfit(f"{where} is {value}, which JSON cannot hold")
        return value
    if _is_dataclass(value) and not isinstance(value, type):
        value = {field.name: getattr(value, field.name) for field in _fields(value)}
    elif hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, dict):
        if bad := [key for key in value if not isinstance(key, str)]:
            raise Unfit(f"{where} has the key {bad[0]!r}, which is not text")
        return {_text(k, where): plain_data(item, f"{where}.{k}", depth + 1) for k, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain_data(item, f"{where}[{at}]", depth + 1) for at, item in enumerate(value)]
    if isinstance(value, (dt.date, dt.time)):
        return value.isoformat()
    if isinstance(value, (decimal.Decimal, pathlib.PurePath)):
        return str(value)
    raise Unfit(f"{where} is a {type(value).__name__}, which is not JSON data")


def _text(value: str, where: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError:
        raise Unfit(f"{where} holds text that is not Unicode") from None
    return value


def _module(name: str, path: str) -> Any:
    """The module that a file holds, wherever it lies."""
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def main() -> int:
    order = json.load(sys.stdin)
    directory = order["directory"]
    own = os.path.dirname(os.path.realpath(__file__))
    sys.path[:] = [folder for folder in sys.path if os.path.realpath(folder or ".") not in (own, directory)]
    source = os.path.join(directory, "src")
    sys.path[:0] = [directory, source] if os.path.isdir(source) else [directory]
    answer = answered(order)
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):
            continue
    path = order["result"]
    limit = order["limit"]
    data = json.dumps(answer, allow_nan=False).encode()
    if len(data) > limit:
        why = f"the result is larger than {limit >> 20} MiB; write it to a file and declare an artifact"
        answer.update(failure="logic", message=why, outputs={})
        data = json.dumps(answer).encode()
    new = os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    handle = os.open(path, os.O_WRONLY | (os.O_TRUNC if path.startswith("/proc/") else new), 0o600)
    with open(handle, "wb") as file:
        file.write(data)
    return 1 if answer["failure"] else 0


def answered(order: dict[str, Any]) -> dict[str, Any]:
    """Failure class, message and outputs of what was ordered."""
    try:
        return {"failure": "", "message": "", "outputs": outputs_of(_result(order))}
    except Unfit as unfit:
        return {**_failed(unfit.failure, str(unfit)), "rule": unfit.rule}
    except SystemExit as end:
        if end.code is None or end.code == 0:
            return {"failure": "", "message": "", "outputs": {}}
        if end.code == 75:
            return _failed("transient", "exit code 75 (try again later)")
        return _failed("logic", f"exit code {end.code}" if isinstance(end.code, int) else str(end.code))
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
        judged = data  # as it is now; it was looked at before this process started
        if kind == "code":
            judged = bytes(target, "utf-8", "surrogatepass")
        elif kind == "function":
            judged = _content(order["guard"]["name"], order["directory"])[1]
        beside = os.path.join(os.path.dirname(os.path.realpath(__file__)), "verdicts.py")
        refused = _module("planrunner_verdicts", beside).refusal(order["guard"], judged)
        if refused:
            raise Unfit(refused[0], "policy", refused[1])
    if order["memory"]:
        memory = order["memory"]
        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        resource.setrlimit(resource.RLIMIT_DATA, (memory if hard < 0 else min(memory, hard), hard))
    if kind == "function":
        function = _function(target, order["directory"])
        result = function(**arguments(function, args))
        if inspect.iscoroutine(result):
            return asyncio.run(result)
        return result
    if kind == "file":
        return _executed(compile(data, path, "exec", dont_inherit=True), path, args)
    linecache.cache["<code>"] = (len(target), None, target.splitlines(keepends=True), "<code>")
    return _executed(compile(target, "<code>", "exec", dont_inherit=True), "<code>", args)


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


def _function(target: str, directory: str) -> Any:
    place, _, name = target.rpartition(":")
    if place.endswith(".py"):
        path = _inside(os.path.join(directory, place), directory, place)
        sys.path.insert(1, os.path.dirname(path))
        module = _module(os.path.splitext(os.path.basename(path))[0], path)
    else:
        if not all(part.isidentifier() for part in place.split(".")):
            raise Unfit(f"`{place}` is not a module name")
        parts = place.split(".")
        for count in range(1, len(parts)):  # looking for a module imports the packages around it
            spec = _found(".".join(parts[:count]))
            is_folder = spec.origin in (None, "namespace") and bool(spec.submodule_search_locations)
            if _origin(spec) or not is_folder:
                _inside(_origin(spec), directory, place)
        _inside(_origin(_found(place)), directory, place)
        module = importlib.import_module(place)
    function: Any = getattr(module, name.split(".")[0], None)
    for part in name.split(".")[1:]:
        function = getattr(function, part, None) if isinstance(function, type) else None
    if not callable(function):
        raise Unfit(f"{place} has no function `{name}`")
    return function


def _found(name: str) -> Any:
    """Where a module is, of which the packages around it have been found to be the project's."""
    try:
        spec = importlib.util.find_spec(name)
    except ModuleNotFoundError as error:
        if not (error.name and (name == error.name or name.startswith(f"{error.name}."))):
            raise
        spec = None
    if spec is None:
        raise Unfit(f"the working directory has no module `{name}`")
    return spec


def _origin(spec: Any) -> str:
    return spec.origin or "" if spec.has_location else ""


def _inside(path: str, directory: str, name: str) -> str:
    real, root = os.path.realpath(path), os.path.realpath(directory)
    if not path or not real.startswith(root.rstrip("/") + "/"):
        raise Unfit(f"{name} is outside the working directory", "policy", "files.beneath")
    if not os.path.isfile(real):
        raise Unfit(f"{name} does not exist or is not a file")
    return real


def _failed(failure: str, message: str, error: BaseException | None = None) -> dict[str, Any]:
    if error is not None:
        text = "".join(traceback.format_exception(type(error), error, _own_part(error), limit=-30))
        sys.stderr.write(text[-16384:])
    elif message:
        sys.stderr.write(f"{message}\n")
    return {"failure": failure, "message": message[:4000], "outputs": {}}


def _own_part(error: BaseException) -> Any:
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith((__file__, "<frozen ")):
        trace = trace.tb_next
    return trace


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


if __name__ == "__main__":
    sys.exit(main())
