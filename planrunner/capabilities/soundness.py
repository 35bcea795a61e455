"""What a capability gave, as far as the engine can keep it: JSON data, texts of characters, failures with a class."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import inf
from typing import TYPE_CHECKING, Any

from planrunner.capabilities.contract import Json, Pause, Preview
from planrunner.later import Later, load
from planrunner.machine.events import Outcome
from planrunner.records import fields

if TYPE_CHECKING:
    from planrunner.capabilities.preconditions import misdeclared
    from planrunner.plan.model import Capability
else:
    misdeclared = Later("planrunner.capabilities.preconditions:misdeclared")


EFFECTS = ("pure", "read", "idempotent", "checkable", "unsafe")
"""The effect classes that a capability may have."""

DEEPEST = 100
"""Levels of lists and maps in a value."""

MOST = 5_000_000
"""Members of a value, those of its members among them; one that stands in several places counts in each."""

_LONGEST = 14_000
"""Bits of a whole number: Python writes and reads none of more than 4300 digits."""

_LONGEST_CLASS = 64
_SHOWN = 3
"""Steps at each end of a long way to a member that stand in a message."""


def not_json(value: Json, where: str = "output", halves: bool = False) -> str:
    """Why a value cannot be kept as JSON data, or an empty string; ``halves`` allows text with lone surrogates, which
    stand for the bytes of a name that is not UTF-8."""
    if type(value) is dict and all(map(_plain, value, value.values())):
        return ""
    around: list[tuple[int, str]] = []
    levels: list[Iterator[tuple[str, Any]]] = [iter(((where, value),))]
    count = 0
    while levels:
        place = next(levels[-1], None)
        if place is None:
            levels.pop()
            del around[-1:]
            continue
        name, item = place
        count += 1
        if isinstance(item, (dict, list, tuple)):
            if not (why := _container(item, around, count, halves)):
                around.append((id(item), name))
                levels.append(_members(item))
        else:
            why = _scalar(item, halves)
        if why:
            return f"{_way([part for _, part in around], name)} {why}"
    return ""


def _plain(key: Any, item: Any) -> bool:
    """Whether a member is surely JSON data."""
    if type(key) is not str or not key.isascii():
        return False
    return item is None or item is True or item is False or (type(item) is str and item.isascii())


def _way(steps: list[str], last: str) -> str:
    """How to get to a member, from the name of the whole; the middle of a long way is left out."""
    steps = [*steps, last]
    if len(steps) > 10 * _SHOWN:
        steps = [*steps[: 2 + _SHOWN], "…", *steps[-_SHOWN:]]
    return "".join(steps)


def _members(item: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(item, dict):
        return ((f".{key}", member) for key, member in item.items())
    return ((f"[{i}]", member) for i, member in enumerate(item))


def _container(item: Any, around: list[tuple[int, str]], count: int, halves: bool) -> str:
    if any(id(item) == outer for outer, _ in around):
        return "refers to itself"
    if len(around) >= DEEPEST:
        return f"lies deeper than {DEEPEST} levels"
    if count + len(item) > MOST:
        return f"is among more than {MOST} members"
    for key in item if isinstance(item, dict) else ():
        if not isinstance(key, str):
            return f"has the key {key!r}, which is not text"
        if not halves and not _is_text(key):
            return f"has the key {key!a}, which is not text that UTF-8 can encode"
    return ""


def _scalar(item: Any, halves: bool) -> str:
    if item is None or isinstance(item, bool):
        return ""
    if isinstance(item, str):
        return "" if halves or _is_text(item) else "is not text that UTF-8 can encode: it has half of a surrogate pair"
    if isinstance(item, int):
        return "" if item.bit_length() <= _LONGEST else "is a number of too many digits"
    if isinstance(item, float):
        return "" if item - item == 0 else f"is {item}, which JSON cannot hold"
    return f"is a {type(item).__name__}, which is not JSON data"


def _is_text(text: str) -> bool:
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def legible(text: str) -> str:
    """The text with halves of surrogate pairs written out."""
    return text if _is_text(text) else text.encode("utf-8", "backslashreplace").decode()


def sound(given: Any, what: str = "the result", halves: bool = False) -> Outcome:
    """The outcome that a capability gave, or the failure that says what is wrong with it.

    A failure needs a class that is the capability's to give: that an attempt was cut off or never began is the engine's
    knowledge, and such an attempt would be waited for.
    """
    if not isinstance(given, Outcome):
        return Outcome("logic", f"{what} is a {type(given).__name__}, not an Outcome")
    if why := _odd(given):
        return Outcome("logic", f"{what} is an Outcome whose {why}")
    outcome = given._replace(refused=()) if given.refused else given  # what a sandbox refuses the engine knows
    if not all(map(_is_text, (outcome.failure, outcome.message, outcome.stdout, outcome.stderr))):
        outcome = outcome._replace(failure=legible(outcome.failure), message=legible(outcome.message))
        outcome = outcome._replace(stdout=legible(outcome.stdout), stderr=legible(outcome.stderr))
    if outcome.failure in ("interrupted", "unstarted"):
        outcome = failed(f"failed as `{outcome.failure}`", outcome)
    elif outcome.failure and not is_class(outcome.failure):
        shown = outcome.failure if len(outcome.failure) <= _LONGEST_CLASS else f"{outcome.failure[:40]}…"
        outcome = failed(f"failed with {shown!r}, which is not a failure class", outcome)
    if not (outcome.outputs or outcome.artifacts):
        return outcome
    why = not_json(outcome.outputs, what, halves) or not_json(outcome.artifacts, "what it kept", halves)
    if not why:
        return outcome._replace(outputs=_own(outcome.outputs))
    if not outcome.failure:
        return Outcome("logic", why, usage=outcome.usage)
    return outcome._replace(message=f"{outcome.message}; {why}", outputs={}, artifacts=())


def _own(value: Json) -> Json:
    """The same data in containers of its own: what a capability keeps and changes later is not what it gave."""
    if isinstance(value, dict):
        return {key: _own(item) if isinstance(item, (dict, list)) else item for key, item in value.items()}
    return [_own(item) if isinstance(item, (dict, list)) else item for item in value]


def is_class(word: str) -> bool:
    """Whether a plan can name a failure class so: letters, digits, ``_``, ``-`` and dots, a letter first."""
    return (
        len(word) <= _LONGEST_CLASS
        and word.isascii()
        and word[:1].isalpha()
        and word.replace("-", "_").replace(".", "_").isidentifier()
    )


def failed(why: str, outcome: Outcome) -> Outcome:
    """The same as a logic failure that says why it is one."""
    said = f": {outcome.message}" if outcome.message else ""
    return outcome._replace(failure="logic", message=f"{why}{said}")


_PARTS: tuple[tuple[str, Any], ...] = (
    ("failure", str),
    ("message", str),
    ("outputs", dict),
    ("exit_code", (int, type(None))),
    ("duration", (int, float)),
    ("stdout", str),
    ("stderr", str),
    ("artifacts", (tuple, list)),
    ("usage", dict),
    ("rule", str),
    ("refused", tuple),
    ("acted", bool),
    ("no_value", bool),
    ("retry_after", (int, float, type(None))),
    ("retry", dict),
)

_RETRY: Mapping[str, Any] = {"attempts": (int,), "delay": (int, float), "max_delay": (int, float)}


def _odd(outcome: Outcome) -> str:
    for name, kind in _PARTS:
        value = getattr(outcome, name)
        if not isinstance(value, kind):
            return f"`{name}` is a {type(value).__name__}"
    if outcome.duration - outcome.duration != 0:
        return f"`duration` is {outcome.duration}"
    if not all(isinstance(record, dict) for record in outcome.artifacts):
        return "`artifacts` are not all maps"
    if outcome.retry_after is not None and not 0 <= outcome.retry_after < inf:
        return f"`retry_after` is {outcome.retry_after}"
    for name, value in outcome.retry.items():
        if name not in _RETRY or not isinstance(value, _RETRY[name]) or not 0 <= value < inf:
            return f"`retry` has {name!r}: {value!r}"
    return ""


def unfit(asked: Any) -> str:
    """Why the engine cannot do what a capability asked for, or an empty string."""
    if isinstance(asked, Pause):
        seconds: Any = asked.seconds
        fits = isinstance(seconds, (int, float)) and seconds - seconds == 0
        return "" if fits else f"it asked for a pause of {seconds!r} seconds"
    if not asked.arguments or not all(isinstance(word, str) for word in asked.arguments):
        return "it asked for a process whose arguments are not texts"
    if not all(isinstance(name, str) and isinstance(value, str) for name, value in asked.env.items()):
        return "it asked for a process whose environment is not of texts"
    if isinstance(asked.directory, str) and isinstance(asked.stdin, bytes) and isinstance(asked.keep, int):
        return ""
    return "it asked for a process whose directory is not text, stdin not bytes or keep not a number"


def no_process(name: str, given: Any) -> str:
    """What is wrong where a capability that is a process gave something else."""
    kind = type(given).__name__
    shown = "None" if given is None else f"{'an' if kind[:1] in 'aeiou' else 'a'} {kind}"
    return f"`{name}` is `process=True` and gave {shown}: it has to give a Spawn or a Pause"


def no_preview(name: str, given: dict[str, Json]) -> str:
    """What is wrong with the outputs of a preview that are not the texts of a Preview, or an empty string."""
    fits = given.keys() == set(fields(Preview)) and isinstance(given["calls"], (list, tuple))
    if fits and all(isinstance(text, str) for text in (given["summary"], given["diff"], *given["calls"])):
        return ""
    return f"the preview of `{name}` is not a Preview of texts"


def misdescribed(description: Any) -> str:
    """Why a description cannot be shown or linted; empty where it can."""
    if not hasattr(description, "_asdict") or not hasattr(description, "inputs"):
        return f"its description is a {type(description).__name__}, not a Capability"
    if not isinstance(description.effect, str) or description.effect not in EFFECTS:
        return f"its effect {description.effect!r} is not one of {', '.join(EFFECTS)}"
    for what in ("risks", "spends", "foreign", "own", "preconditions", "writes"):
        words = getattr(description, what)
        if not isinstance(words, (tuple, list)) or not all(isinstance(word, str) for word in words):
            return f"its `{what}` are {words!r}, not a tuple of texts"
    wrong = map(misdeclared, description.preconditions)
    return next(filter(None, (*wrong, *_misfits(description), *_misused(description))), "")


def _misused(description: Capability) -> Iterator[str]:
    """What is declared of untrusted text and cannot be followed."""
    if used := [field for field in description.inputs if field.use]:
        uses = (*load("planrunner.plan.taint.traits:USES"), load("planrunner.plan.taint.traits:DIGEST"))
        for field in used:
            if field.use not in uses:
                yield f"the use {field.use!r} of `{field.name}` is not one of {', '.join(uses)}"
    shaped = description.shaped
    if not isinstance(shaped, dict) or not all(isinstance(word, str) for pair in shaped.items() for word in pair):
        yield f"its `shaped` is {shaped!r}, not a mapping of outputs to inputs"
    named = [*description.writes, *(shaped.values() if isinstance(shaped, dict) else ())]
    known = {field.name for field in description.inputs}
    for name in (str(text).partition("/")[0] for text in named):
        if name not in known and not description.open_inputs:
            yield f"its `writes` or `shaped` name the input `{name}`, which it has not"


def _misfits(description: Capability) -> Iterator[str]:
    texts: list[Any] = [description.name, description.summary, description.description]
    yield "" if all(isinstance(text, str) for text in texts) else "its name or docstring is not text"
    yield not_json(texts, "its texts")
    for field in (*description.inputs, *description.outputs):
        yield not_json(field.default, f"the default of the input `{field.name}`")
        yield not_json(field.schema, f"what is said of the type of `{field.name}`")
        text: Any = field.description
        yield "" if isinstance(text, str) else f"the text of `{field.name}` is a {type(text).__name__}"
        yield not_json(text, f"the text of `{field.name}`")
