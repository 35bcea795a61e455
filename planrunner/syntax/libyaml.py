"""The event stream of a YAML text, from libyaml where its binding is installed, else from ruamel's parser in Python.

The binding (``_ruamel_yaml``) takes the classes of its events and exceptions from ``ruamel.yaml`` when it is imported,
and importing that package costs 25 ms and making its events half of the time of reading a plan. So the binding is given
leaner ones: 4 ms, and a scalar costs one tuple. The package itself stays as it is for whoever else imports it: it is
loaded when somebody asks for something in it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from importlib.machinery import PathFinder
from types import ModuleType
from typing import Any, NamedTuple

_ERRORS = ("Scanner", "Parser", "Composer", "Constructor", "Emitter", "Serializer", "Representer")


SCALAR = 7
"""The length of a scalar; every other event is shorter and begins with its kind."""
MAPPING_START, MAPPING_END = "mapping start", "mapping end"
SEQUENCE_START, SEQUENCE_END = "sequence start", "sequence end"
ALIAS, DOCUMENT_START, REST = "alias", "document start", "rest"


def _scalar(*event: Any) -> Any:
    return event


def _mapping_start(anchor: Any, tag: Any, _implicit: Any, start: Any, end: Any, flow: Any) -> Any:
    return MAPPING_START, anchor, tag, start, end, flow


def _sequence_start(anchor: Any, tag: Any, _implicit: Any, start: Any, end: Any, flow: Any) -> Any:
    return SEQUENCE_START, anchor, tag, start, end, flow


def _mapping_end(_start: Any, end: Any) -> Any:
    return MAPPING_END, end


def _sequence_end(_start: Any, end: Any) -> Any:
    return SEQUENCE_END, end


def _alias(anchor: Any, start: Any, end: Any) -> Any:
    return ALIAS, anchor, start, end


def _document_start(start: Any, *_: Any) -> Any:
    return DOCUMENT_START, start


def _rest(*_: Any) -> Any:
    return (REST,)


_EVENTS: dict[str, Callable[..., Any]] = {
    "MappingStartEvent": _mapping_start,
    "SequenceStartEvent": _sequence_start,
    "MappingEndEvent": _mapping_end,
    "SequenceEndEvent": _sequence_end,
    "AliasEvent": _alias,
    "ScalarEvent": _scalar,
    "DocumentStartEvent": _document_start,
    "DocumentEndEvent": _rest,
    "StreamStartEvent": _rest,
    "StreamEndEvent": _rest,
}


class Events(NamedTuple):
    """A stream of parse events: ``next`` gives the next one at every call and None after the last, and raises ``error``
    where the text does not parse. Each is a tuple, for that is what is made fastest: a scalar
    ``(anchor, tag, implicit, value, start, end, style)`` with two marks in it, the beginning of a collection
    ``(kind, anchor, tag, start, end, flow)``, its end ``(kind, end)``, an alias ``(kind, anchor, start, end)``, the
    beginning of a document ``(kind, start)``, anything else ``(kind,)``."""

    next: Callable[[], Any]
    error: type[Exception]


def read_events(text: str) -> Events:
    """The events of a text. Raises UnicodeEncodeError for a text with half of a surrogate pair in it."""
    text.encode()
    binding = _binding()
    if binding is None:
        return read_python_events(text)
    get = binding.CParser(text).get_event
    return _events(get if binding.ScalarEvent is _scalar else _translated(iter(get, None)))


def read_python_events(text: str) -> Events:
    """The same from ruamel's parser in Python, ten times slower."""
    from ruamel.yaml import YAML

    return _events(_translated(iter(YAML(typ="safe", pure=True).parse(text))))


def _events(get: Callable[[], Any]) -> Events:
    from ruamel.yaml.error import YAMLError

    return Events(get, YAMLError)


def _translated(stream: Iterator[Any]) -> Callable[[], Any]:
    """ruamel's own event objects as those of this module."""

    def translate() -> Any:
        event = next(stream, None)
        if event is None:
            return None
        make, start, end = _EVENTS[type(event).__name__], event.start_mark, event.end_mark
        if make is _scalar:
            return event.anchor, event.ctag, event.implicit, event.value, start, end, event.style
        if make in (_mapping_start, _sequence_start):
            return make(event.anchor, event.ctag, event.implicit, start, end, event.flow_style)
        return make(event.anchor, start, end) if make is _alias else make(start, end)

    return translate


def _binding() -> Any:
    """The binding of libyaml, or None where it cannot be imported."""
    if "ruamel.yaml" not in sys.modules and "_ruamel_yaml" not in sys.modules:
        try:
            return _bind_lightly()
        except Exception:  # whatever a future binding does differently, the ordinary import below decides
            sys.modules.pop("ruamel.yaml", None)
    try:
        import _ruamel_yaml
    except ImportError:
        return None
    return _ruamel_yaml


class _LatePackage(ModuleType):
    """``ruamel.yaml`` with its ``__init__`` still to run; the first name that is asked of it runs it."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        self.__class__ = ModuleType  # type: ignore[assignment]
        assert self.__spec__ is not None and self.__spec__.loader is not None
        self.__spec__.loader.exec_module(self)
        return getattr(self, name)


def _bind_lightly() -> Any:
    import ruamel

    spec = PathFinder.find_spec("ruamel.yaml", ruamel.__path__)
    if spec is None:
        raise ImportError("ruamel.yaml is not installed")
    package = _LatePackage("ruamel.yaml")
    package.__spec__, package.__path__ = spec, list(spec.submodule_search_locations or ())
    sys.modules["ruamel.yaml"] = package
    ruamel.yaml = package  # as an ordinary import would leave it
    stand_ins = _stand_ins()
    sys.modules |= stand_ins
    try:
        import _ruamel_yaml
    finally:
        for name in stand_ins:
            sys.modules.pop(name, None)
            package.__dict__.pop(name.rpartition(".")[2], None)
    return _ruamel_yaml


def _stand_ins() -> dict[str, ModuleType]:
    """The modules that the binding imports and that it shall find as given here."""
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    contents: dict[str, dict[str, Any]] = {"events": dict(_EVENTS)}
    contents["reader"] = {"ReaderError": type("ReaderError", (YAMLError,), {})}
    for kind in _ERRORS:
        contents[kind.lower()] = {f"{kind}Error": type(f"{kind}Error", (MarkedYAMLError,), {})}
    modules = {}
    for name, members in contents.items():
        module = modules[f"ruamel.yaml.{name}"] = ModuleType(f"ruamel.yaml.{name}")
        module.__dict__.update(members)
    return modules
