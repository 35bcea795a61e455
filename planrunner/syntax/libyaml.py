"""The event stream of a YAML text, from libyaml where its binding is installed, else from ruamel's parser in Python."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

try:
    from _ruamel_yaml import CParser
except ImportError:  # no wheel of the binding for this interpreter
    CParser = None

SCALAR = 7
"""The length of a scalar; every other event is shorter and begins with its kind."""
MAPPING_START, MAPPING_END = "mapping start", "mapping end"
SEQUENCE_START, SEQUENCE_END = "sequence start", "sequence end"
ALIAS, DOCUMENT_START, REST = "alias", "document start", "rest"


class Events(NamedTuple):
    """A stream of parse events: ``next`` gives the next one at every call and None after the last, and raises ``error``
    where the text does not parse. Each is a tuple, which is what is made fastest: a scalar
    ``(anchor, tag, implicit, value, start, end, style)`` with two marks in it, the beginning of a collection
    ``(kind, anchor, tag, start, end, flow)``, its end ``(kind, end)``, an alias ``(kind, anchor, start, end)``, the
    beginning of a document ``(kind, start)``, anything else ``(kind,)``."""

    next: Callable[[], Any]
    error: type[Exception]


def read_events(text: str) -> Events:
    """The events of a text. Raises UnicodeEncodeError for a text with half of a surrogate pair in it."""
    text.encode()
    return read_python_events(text) if CParser is None else _events(iter(CParser(text).get_event, None))


def read_python_events(text: str) -> Events:
    """The same from ruamel's parser in Python, ten times slower."""
    return _events(iter(YAML(typ="safe", pure=True).parse(text)))


def _events(stream: Iterator[Any]) -> Events:
    """The event objects of ruamel as tuples."""

    def translated() -> Any:
        event = next(stream, None)
        return None if event is None else _TUPLES[type(event).__name__](event)

    return Events(translated, YAMLError)


def _scalar(event: Any) -> Any:
    return event.anchor, event.ctag, event.implicit, event.value, event.start_mark, event.end_mark, event.style


def _mapping_start(event: Any) -> Any:
    return MAPPING_START, event.anchor, event.ctag, event.start_mark, event.end_mark, event.flow_style


def _sequence_start(event: Any) -> Any:
    return SEQUENCE_START, event.anchor, event.ctag, event.start_mark, event.end_mark, event.flow_style


def _rest(_: Any) -> Any:
    return (REST,)


_TUPLES: dict[str, Callable[[Any], Any]] = {
    "ScalarEvent": _scalar,
    "MappingStartEvent": _mapping_start,
    "SequenceStartEvent": _sequence_start,
    "MappingEndEvent": lambda event: (MAPPING_END, event.end_mark),
    "SequenceEndEvent": lambda event: (SEQUENCE_END, event.end_mark),
    "AliasEvent": lambda event: (ALIAS, event.anchor, event.start_mark, event.end_mark),
    "DocumentStartEvent": lambda event: (DOCUMENT_START, event.start_mark),
    "DocumentEndEvent": _rest,
    "StreamStartEvent": _rest,
    "StreamEndEvent": _rest,
}
