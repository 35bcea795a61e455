"""From rendered inputs to a call of a capability's function, and from what it returns to an outcome."""

from __future__ import annotations

import _collections_abc as _abc  # what `collections.abc` is, without the package around it

from planrunner.capabilities.contract import Context, Failure, Pause, Spawn
from planrunner.capabilities.declare import Declaration, declaration_of
from planrunner.errors import StorageFailed
from planrunner.machine.events import Outcome
from planrunner.record import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from planrunner.capabilities.contract import Json

Result = Outcome | Spawn | Pause | StorageFailed
"""What a call came to; storage that failed while the capability kept something is the engine's to deal with."""


class Binding(NamedTuple):
    """A function ready to be called; ``renamed`` maps inputs named like Python keywords to their parameters."""

    function: Callable[..., Any]
    declaration: Declaration
    wants_context: bool
    renamed: Mapping[str, str]


def bind(name: str, function: Callable[..., Any]) -> Binding:
    """Look at the code object rather than the signature: ``inspect`` would cost a short run a third of its start-up."""
    code = getattr(function, "__code__", None) or getattr(type(function).__call__, "__code__", None)
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount] if code else ()
    first = names[1:2] if names[:1] == ("self",) else names[:1]
    renamed = {parameter[:-1]: parameter for parameter in names if parameter.endswith("_")}
    return Binding(function, declaration_of(function) or Declaration(name), first == ("context",), renamed)


def invoke(binding: Binding, inputs: dict[str, Json] | None, context: Context | None) -> Result:
    """Call the function with its inputs. Whatever it raises becomes a failed outcome, never an exception.

    ``context`` may be None for a function that does not want one.
    """
    try:
        result = outcome_of(_call(binding, inputs, context))
    except Failure as failure:
        result = Outcome(failure.failure, str(failure), failure.outputs)
    except StorageFailed as failed:
        return failed
    except Exception as error:  # a capability's own fault must not reach the engine
        return Outcome("logic", f"{type(error).__name__}: {error}", stderr=_traceback(error))
    return own(result) if isinstance(result, Outcome) and result.failure else result


def own(outcome: Outcome) -> Outcome:
    """An outcome whose class is the capability's to give: that an attempt was cut off or never began is the engine's
    knowledge, and such an attempt would be waited for."""
    if outcome.failure not in ("interrupted", "unstarted"):
        return outcome
    said = f": {outcome.message}" if outcome.message else ""
    return outcome._replace(failure="logic", message=f"failed as `{outcome.failure}`{said}")


def probe(binding: Binding, context: Context) -> bool | None:
    """Whether an earlier attempt took effect; None where the capability has no probe, cannot tell or raises."""
    if binding.declaration.probe is None:
        return None
    try:
        answer = _call(bind("", binding.declaration.probe), context.call.inputs, context)
    except Exception:  # a probe that fails tells nothing
        return None
    return answer if isinstance(answer, bool) else None


def _call(binding: Binding, inputs: dict[str, Json] | None, context: Context | None) -> Any:
    inputs = inputs or {}
    if binding.renamed:
        inputs = {binding.renamed.get(name, name): value for name, value in inputs.items()}
    return binding.function(context, **inputs) if binding.wants_context else binding.function(**inputs)


def outcome_of(returned: Any) -> Result:
    """What a returned value stands for: outputs by name, or one output ``value``."""
    if type(returned) is dict:
        return Outcome(outputs=returned)
    if isinstance(returned, (Outcome, Spawn, Pause)):
        return returned
    if returned is None:
        return Outcome()
    if hasattr(returned, "_asdict"):
        return Outcome("", "", returned._asdict())
    if isinstance(returned, _abc.Mapping):
        return Outcome(outputs=dict(returned))
    return Outcome(outputs={"value": returned})


def not_json(value: Json, where: str = "output") -> str:
    """Why a value cannot be kept as JSON data, or an empty string."""
    if value is None or isinstance(value, (bool, int, str)):
        return ""
    if isinstance(value, float):
        return "" if value - value == 0 else f"{where} is {value}, which JSON cannot hold"
    if isinstance(value, (list, tuple)):
        return next((why for i, item in enumerate(value) if (why := not_json(item, f"{where}[{i}]"))), "")
    if isinstance(value, dict):
        if bad := next((key for key in value if not isinstance(key, str)), None):
            return f"{where} has the key {bad!r}, which is not text"
        return next((why for key, item in value.items() if (why := not_json(item, f"{where}.{key}"))), "")
    return f"{where} is a {type(value).__name__}, which is not JSON data"


def _traceback(error: BaseException) -> str:
    import traceback  # late: only a capability with a fault needs it

    return "".join(traceback.format_exception(error))[-16384:]
