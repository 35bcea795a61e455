"""What a task gives back and what it used: read from the files its process wrote, typed, and held against the plan."""

from __future__ import annotations

import json
import os
import stat
import threading
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from planrunner.capabilities.contract import OUTPUT_LIMIT, Context, Failure, Json, money, percent, seconds, size
from planrunner.fileio import open_told
from planrunner.jsontext import shown
from planrunner.later import Later
from planrunner.machine.ledger import SPENDABLE, units
from planrunner.plan.agents import REFLECTION
from planrunner.records import Struct

if TYPE_CHECKING:
    from planrunner.plan.model import Output
    from planrunner.plan.nearest import meant, nearest
else:
    meant = Later("planrunner.plan.nearest:meant")
    nearest = Later("planrunner.plan.nearest:nearest")


def read_output_file(path: str) -> dict[str, Json]:
    """The outputs in the file named by ``PLANRUNNER_OUTPUT``, which is then removed; no file means none.

    Raises Failure (logic) for a file above 1 MiB, one that is not a regular file, or a line that is neither a JSON
    object, ``key=value`` nor ``key<<END``.
    """
    return parse_outputs(_take(path, "output"))


def _take(path: str, kind: str) -> bytes:
    """What a process wrote to a file of its own, which is then removed."""
    try:
        handle = open_told(path)
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise Failure(f"the {kind} file cannot be read: {error.strerror}") from None  # a link, a folder
    try:
        return _read_all(handle, kind)
    finally:
        os.close(handle)
        with suppress(OSError):  # it has no name, a folder stands there, or the task took it away in the meantime
            os.unlink(path)


def _read_all(handle: int, kind: str = "output") -> bytes:
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        raise Failure(f"the {kind} file is not a regular file")
    chunks: list[bytes] = []
    total = 0
    while data := os.read(handle, OUTPUT_LIMIT + 1 - total):
        chunks.append(data)
        total += len(data)
        if total > OUTPUT_LIMIT:
            more = "; keep large results in a file and declare an artifact" if kind == "output" else ""
            raise Failure(f"the {kind} file is larger than 1 MiB{more}")
    return b"".join(chunks)


def parse_outputs(data: bytes) -> dict[str, Json]:
    """Outputs line by line: JSON objects are merged, ``key=value`` is text, ``key<<END`` takes lines up to ``END``."""
    try:
        lines = data.decode("utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise Failure(f"line {data[: error.start].count(10) + 1} of the output file is not UTF-8 text") from None
    outputs: dict[str, Json] = {}
    at = 0
    while at < len(lines):
        line = lines[at].rstrip("\r")
        at += 1
        if line.removeprefix(_MARK).startswith("{"):
            try:
                value = _data(line)
            except (ValueError, RecursionError) as error:
                raise Failure(f"line {at} of the output file is not valid JSON: {error}") from None
            if not isinstance(value, dict):
                raise Failure(f"line {at} of the output file is not a JSON object")
            outputs.update(value)
        elif line.strip():
            key, mark, rest = _split(line, at)
            if mark == "=":
                outputs[key] = rest
            else:
                end = rest.strip()
                last = next((index for index in range(at, len(lines)) if lines[index].rstrip("\r") == end), None)
                if last is None:
                    raise Failure(f"line {at} of the output file opens `{key}<<{end}` and no line `{end}` closes it")
                outputs[key], at = "\n".join(lines[at:last]), last + 1
    return outputs


_MARK = "\ufeff"
"""What programs of Windows begin a text with; it is not part of it."""


def _data(text: str) -> Json:
    """The data of a JSON text. Raises ValueError, RecursionError."""
    return json.loads(text.removeprefix(_MARK), parse_constant=_refuse)


def _refuse(constant: str) -> Json:
    raise ValueError(f"{constant} is not a JSON value")


def _split(line: str, number: int) -> tuple[str, str, str]:
    """Key, mark and rest of a line; whichever of ``=`` and ``<<`` stands first decides."""
    equals, here = line.find("="), line.find("<<")
    if here >= 0 and (equals < 0 or here < equals):
        key, mark, rest = line[:here], "<<", line[here + 2 :]
    else:
        key, mark, rest = line[: max(equals, 0)], "=", line[equals + 1 :]
    key = key.strip()
    if not key.replace("-", "_").isidentifier() or (mark == "<<" and not rest.strip()):
        text = line if len(line) <= 60 else line[:57] + "…"
        raise Failure(f"line {number} of the output file is neither a JSON object, `key=value` nor `key<<END`: {text}")
    return key, mark, rest


def stdout_outputs(how: str, text: str, declared: Iterable[Output]) -> dict[str, Json]:
    """Outputs out of standard output, as ``stdout: json | text | lines`` asks.

    ``json`` gives the members of an object, unless just one output is declared and the object lacks it; anything else
    is one output, as it is for ``text`` (without the last line ending) and ``lines``. That one has the name of the only
    declared output, else ``value``. Raises Failure when the text is not JSON.
    """
    names = [output.name for output in declared if output.value is None and not output.path]
    name = names[0] if len(names) == 1 else "value"
    if how == "text":
        return {name: text.removesuffix("\n")}
    if how == "lines":
        return {name: text.splitlines()}
    try:
        value = _data(text)
    except (ValueError, RecursionError) as error:
        raise Failure(f"standard output is not valid JSON: {error}") from None
    if isinstance(value, dict) and (len(names) != 1 or name in value):
        return value
    return {name: value}


def settle_outputs(declared: Iterable[Output], given: Mapping[str, Json], directory: str) -> dict[str, Json]:
    """``found`` with every declared output there and of its type; outputs with a ``value`` are the engine's to render.

    An output with a ``path`` is that path when its type is any or file, else the typed content of the file. Raises
    Failure (logic) naming the output that is missing or of another type.
    """
    outputs = dict(given)
    for output in declared:
        if output.value is not None:
            continue
        if output.path:
            outputs[output.name] = _from_path(output, directory)
        elif output.name not in outputs:
            raise Failure(f"the declared output `{output.name}` was not given", outputs=outputs)
        else:
            outputs[output.name] = typed(output.name, output.type, outputs[output.name])
    return outputs


def _from_path(output: Output, directory: str) -> Json:
    path = os.path.join(directory, output.path)
    if output.type in ("any", "file", "path", ""):
        if not os.path.exists(path):
            raise Failure(f"the declared output `{output.name}` is missing: {output.path} does not exist")
        return output.path
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise Failure(f"the declared output `{output.name}` is missing: {output.path}: {error.strerror}") from None
    try:
        text = _read_all(handle).decode("utf-8").removesuffix("\n")
    except UnicodeDecodeError:
        raise Failure(f"the declared output `{output.name}` is not UTF-8 text: {output.path}") from None
    finally:
        os.close(handle)
    return typed(output.name, output.type, text)


def typed(name: str, kind: str, value: Json) -> Json:
    """A value as the declared type, text converted where it says what the type wants; raises Failure otherwise."""
    try:
        return _CONVERT[kind](value) if kind in _CONVERT else value
    except (ValueError, OverflowError) as error:
        detail = f" ({error})" if str(error) else ""
        raise Failure(f"the output `{name}` is declared {kind}, found {shown(value)}{detail}") from None


def _string(value: Json) -> str:
    if not isinstance(value, str):
        raise ValueError
    return value


def _int(value: Json) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise ValueError
    if isinstance(value, float) and not value.is_integer():
        raise ValueError
    try:
        return int(value)
    except ValueError:
        raise ValueError from None


def _number(value: Json) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        raise ValueError
    if isinstance(value, (int, float)):
        return value
    text = value.strip()
    try:
        number: float = int(text) if text.lstrip("+-").isdigit() else float(text)
    except ValueError:
        raise ValueError from None
    if number - number != 0:
        raise ValueError
    return number


def _bool(value: Json) -> bool:
    if isinstance(value, bool):
        return value
    if value in ("true", "True", "TRUE"):
        return True
    if value in ("false", "False", "FALSE"):
        return False
    raise ValueError


def _parsed(kind: type) -> Any:
    def convert(value: Json) -> Json:
        if isinstance(value, str):
            try:
                value = _data(value)
            except RecursionError:
                raise ValueError from None
        if not isinstance(value, kind):
            raise ValueError
        return value

    return convert


_CONVERT: dict[str, Any] = {
    "string": _string,
    "int": _int,
    "number": _number,
    "bool": _bool,
    "duration": seconds,
    "size": size,
    "money": money,
    "percent": percent,
    "list": _parsed(list),
    "map": _parsed(dict),
}


_counting = threading.Lock()


def count_call(context: Context) -> None:
    """Count a request that goes out now. Raises Failure (budget) where the attempt has set aside no call for it."""
    with _counting:  # a capability may ask from several threads
        require_calls(context, _called(context) + 1)
        context.spend(calls=1)


def may_call(context: Context) -> bool:
    """Whether the attempt has set aside a call for another request."""
    limit = context.call.reserved.get("calls")
    return limit is None or _called(context) < limit


def _called(context: Context) -> int:
    return int(context.log.usage.get("calls", 0))


def require_calls(context: Context, wanted: int) -> None:
    """Raises Failure (budget) where the attempt has not set aside as many calls as it wants in all."""
    limit = context.call.reserved.get("calls")
    if limit is not None and wanted > limit:
        said = f"{limit:g} call{'s' if limit != 1 else ''} reserved for the attempt, {wanted} needed"
        raise Failure(f"{said}: set {budget_key(context, 'calls', str(wanted))}", "budget")


def budget_key(context: Context, what: str, more: str) -> str:
    """Where the plan, or the settings, give a task a budget: that of a reflection is under ``reflect``."""
    if REFLECTION in (context.call.task.notes or {}):
        return f"`reflect: {{budgets: {{{what}: {more}}}}}`"
    return f"`budgets: {{{what}: {more}}}` of the task"


class Usage(Struct):
    """What an attempt told that it used, and what is wrong with the rest of what it told; empty where nothing is."""

    amounts: dict[str, Json]
    problem: str = ""


def read_usage(path: str) -> Usage:
    """The file named by ``PLANRUNNER_USAGE``, which is then removed: JSON objects or ``key=value`` lines, which add
    up."""
    try:
        lines = _take(path, "usage").decode("utf-8", "replace").splitlines()
    except Failure as failure:
        return Usage({}, str(failure))
    amounts: dict[str, Json] = {}
    problem = ""
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        of_line = _usage_line(line)
        for what, more in of_line.amounts.items():
            amounts[what] = amounts.get(what, 0) + more
        if of_line.problem and not problem:
            text = line if len(line) <= 60 else line[:57] + "…"
            problem = f"line {number} of the usage file is `{text}`, {of_line.problem}"
    return Usage(amounts, problem)


def _usage_line(line: str) -> Usage:
    if not line.lstrip().startswith("{"):
        what, mark, value = line.partition("=")
        return usage_of({what.strip(): value.strip()}) if mark else Usage({}, _NO_AMOUNT)
    try:
        object = _data(line)
    except (ValueError, RecursionError):
        return Usage({}, "which is not valid JSON")
    return usage_of(object)


_NO_AMOUNT = "which is not an amount: write `cost=0.05`, `tokens=1200` or a JSON object of these"


def usage_of(told: Mapping[str, Json]) -> Usage:
    """What was told by the names of amounts; text is read as a number, cost also as ``$0.05``."""
    amounts: dict[str, Json] = {}
    problem = ""
    for what, value in told.items():
        number = _amount(what, value)
        if what not in SPENDABLE:
            problem = problem or f"where `{what}` is not one of {_COUNTED}{meant(nearest(what, SPENDABLE))}"
        elif units(what, number) is None:
            problem = problem or _NO_AMOUNT
        else:
            amounts[what] = number
    return Usage(amounts, problem)


_COUNTED = ", ".join(f"`{what}`" for what in SPENDABLE)


def _amount(what: str, value: Json) -> Json:
    if not isinstance(value, str):
        return value
    try:
        return money(value) if what == "cost" else float(value)
    except ValueError:
        return None
