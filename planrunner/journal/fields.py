"""The fields of an event as JSON and back, by their annotations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from planrunner.jsontext import encode_basestring_ascii as _text
from planrunner.jsontext import write_json
from planrunner.machine import events

Json = Any
Body = dict[str, Json]
Render = Callable[[Any], str]
Read = Callable[[Any], Any]


def _json(value: Json) -> str:
    return _text(value) if type(value) is str else write_json(value)


_SIMPLE: dict[str, Render] = {"str": _text, "int": int.__repr__}


def _annotation(event: type, field: str) -> str:
    kind = event.__annotations__[field]
    return str(getattr(kind, "__forward_arg__", kind)).removesuffix(" | None")


def _record(annotation: str) -> type | None:
    """The named tuple of the events module that an annotation names."""
    found = getattr(events, annotation, None)
    return found if isinstance(found, type) and hasattr(found, "_fields") else None


def _elements(annotation: str) -> str:
    """``tuple[X, ...]`` → ``X``, anything else → empty."""
    return annotation[6:-1].removesuffix(", ...") if annotation.startswith("tuple[") else ""


def _renderer(annotation: str) -> Render:
    record = _record(annotation)
    if record is not None:
        return renderer_of(record)
    if _record(_elements(annotation)) is not None:
        render = _renderer(_elements(annotation))
        return lambda value: f"[{','.join(map(render, value))}]"
    return _SIMPLE.get(annotation, _json)


def renderer_of(record: Any) -> Render:
    """A function from a record to its JSON object, without the fields that have their default.

    Records of the kinds that make up most of a run are written by hand, three times as fast, as long as their fields
    are the ones the hand knew.
    """
    known = _BY_HAND.get(record.__name__)
    if known is not None and known[0] == record._fields:
        return known[1]
    return rendered_by_field(record)


def rendered_by_field(record: Any) -> Render:
    """As ``renderer_of``, for any record: one function for each field, chosen by its annotation."""
    missing = object()
    fields = []
    for name in record._fields:
        kind = record.__annotations__[name]
        optional = str(getattr(kind, "__forward_arg__", kind)).endswith(" | None")
        render = _json if optional else _renderer(_annotation(record, name))
        fields.append((f'"{name}":', record._field_defaults.get(name, missing), render))

    def render_record(value: Any) -> str:
        shown = [
            key + render(field) for (key, default, render), field in zip(fields, value, strict=True) if field != default
        ]
        return "{" + ",".join(shown) + "}"

    return render_record


def _reader(annotation: str) -> Read | None:
    record = _record(annotation)
    if record is not None:
        return reader_of(record)
    elements = _elements(annotation)
    if not elements:
        return None
    inner = _reader(elements)
    return tuple if inner is None else lambda value: tuple(map(inner, value))


def reader_of(record: Any) -> Read:
    """A function from a JSON object to the record, lists made tuples again and objects records."""
    converts = [(name, _reader(_annotation(record, name))) for name in record._fields]
    changed = [(name, convert) for name, convert in converts if convert is not None]
    if not changed:
        return lambda body: record(**body)

    def read_record(body: Body) -> Any:
        for name, convert in changed:
            if body.get(name) is not None:
                body[name] = convert(body[name])
        return record(**body)

    return read_record


def _number(value: float) -> str:
    if value - value != 0:
        raise ValueError(f"{value} is not JSON data")
    return repr(value)


def _attempt_started(event: events.AttemptStarted) -> str:
    task, attempt, key, inputs, effect, reissue, reserved, degraded, undo = event
    text = f'{{"task":{_text(task)},"attempt":{attempt:d},"key":{_text(key)}'
    if inputs:
        text += f',"inputs":{_text(inputs)}'
    if effect != "unsafe":
        text += f',"effect":{_text(effect)}'
    if reissue:
        text += f',"reissue":{reissue:d}'
    if reserved:
        text += f',"reserved":{_json(reserved)}'
    if degraded:
        text += ',"degraded":true'
    return text + (',"undo":true}' if undo else "}")


def _attempt_ended(event: events.AttemptEnded) -> str:
    return f'{{"task":{_text(event.task)},"attempt":{event.attempt:d},"outcome":{_render_outcome(event.outcome)}}}'


def _outcome(outcome: events.Outcome) -> str:
    failure, message, outputs, exit_code, duration, stdout, stderr, artifacts, usage, rule, *more = outcome
    refused, acted, no_value = more
    shown = [f'"failure":{_text(failure)}'] if failure else []
    if message:
        shown.append(f'"message":{_text(message)}')
    if outputs:
        shown.append(f'"outputs":{_json(outputs)}')
    if exit_code is not None:
        shown.append(f'"exit_code":{exit_code:d}')
    if duration:
        shown.append(f'"duration":{_number(duration)}')
    if stdout:
        shown.append(f'"stdout":{_text(stdout)}')
    if stderr:
        shown.append(f'"stderr":{_text(stderr)}')
    if artifacts:
        shown.append(f'"artifacts":{_json(artifacts)}')
    if usage:
        shown.append(f'"usage":{_json(usage)}')
    if rule:
        shown.append(f'"rule":{_text(rule)}')
    if refused:
        shown.append(f'"refused":{_json(refused)}')
    if not acted:
        shown.append('"acted":false')
    if no_value:
        shown.append('"no_value":true')
    return f"{{{','.join(shown)}}}"


def _task_settled(event: events.TaskSettled) -> str:
    task, status, reason, detail, failure = event
    text = f'{{"task":{_text(task)},"status":{_text(status)}'
    if reason:
        text += f',"reason":{_text(reason)}'
    if detail:
        text += f',"detail":{_text(detail)}'
    return text + (f',"failure":{_text(failure)}}}' if failure else "}")


_BY_HAND: dict[str, tuple[tuple[str, ...], Callable[[Any], str]]] = {
    "AttemptStarted": (
        ("task", "attempt", "key", "inputs", "effect", "reissue", "reserved", "degraded", "undo"),
        _attempt_started,
    ),
    "AttemptEnded": (("task", "attempt", "outcome"), _attempt_ended),
    "Outcome": (
        (
            *("failure", "message", "outputs", "exit_code", "duration", "stdout", "stderr", "artifacts", "usage"),
            *("rule", "refused", "acted", "no_value"),
        ),
        _outcome,
    ),
    "TaskSettled": (("task", "status", "reason", "detail", "failure"), _task_settled),
}
_render_outcome = renderer_of(events.Outcome)
