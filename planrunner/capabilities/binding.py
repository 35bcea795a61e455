"""From rendered inputs to a call of a capability's function, and from what it returns to an outcome."""

from __future__ import annotations

import _collections_abc as _abc  # what `collections.abc` is, without the package around it
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from planrunner.capabilities.contract import Context, Declaration, Failure, Json, Pause, Spawn, declaration_of
from planrunner.capabilities.soundness import failed, legible, no_process, sound, unfit
from planrunner.errors import StorageFailed
from planrunner.later import Later
from planrunner.machine.events import Outcome
from planrunner.process import plugin_code
from planrunner.records import Struct

if TYPE_CHECKING:
    from planrunner.capabilities.annotations import fitted, held
    from planrunner.capabilities.faults import interrupts, said, traceback_of
    from planrunner.capabilities.preconditions import require_for
else:
    fitted = Later("planrunner.capabilities.annotations:fitted")
    held = Later("planrunner.capabilities.annotations:held")
    interrupts = Later("planrunner.capabilities.faults:interrupts")
    said = Later("planrunner.capabilities.faults:said")
    traceback_of = Later("planrunner.capabilities.faults:traceback_of")
    require_for = Later("planrunner.capabilities.preconditions:require_for")


_OWN = "planrunner.capabilities."
"""Modules of capabilities that look at what they are given themselves, with words of their own."""

Result = Outcome | Spawn | Pause | StorageFailed
"""What a call came to; storage that failed while the capability kept something is the engine's to deal with."""


class Binding(Struct):
    """A function ready to be called; ``renamed`` maps inputs named like Python keywords to their parameters, ``typed``
    is the function of a plugin whose annotations the inputs are to fit."""

    function: Callable[..., Any]
    declaration: Declaration
    wants_context: bool
    renamed: Mapping[str, str]
    typed: Callable[..., Any] | None = None


def bind(name: str, function: Callable[..., Any], inputs_of: Callable[..., Any] | None = None) -> Binding:
    """Look at the code object rather than the signature: ``inspect`` would cost a short run a third of its start-up.

    What is called beside a capability, with its inputs, is bound with ``inputs_of``, the function of the capability.
    """
    code = getattr(function, "__code__", None) or getattr(type(function).__call__, "__code__", None)
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount] if code else ()
    first = names[1:2] if names[:1] == ("self",) else names[:1]
    renamed = {parameter[:-1]: parameter for parameter in names if parameter.endswith("_")}
    declaration = declaration_of(function)
    typed = inputs_of if declaration is None else function
    if typed is not None and getattr(typed, "__module__", "").startswith(_OWN):
        typed = None
    return Binding(function, declaration or Declaration(name), first == ("context",), renamed, typed)


def invoke(
    binding: Binding,
    inputs: dict[str, Json] | None,
    context: Context | None,
    what: str = "the result",
    halves: bool = False,
) -> Result:
    """Call the function with its inputs. Whatever it raises or gives becomes an outcome, a failed one where it is
    wrong, never an exception; only a real Ctrl-C, which arrives in the main thread, goes on.

    ``context`` may be None for a function that does not want one. ``what`` names in messages what it gave; ``halves``
    as for ``not_json``.
    """
    try:
        if binding.declaration.preconditions and context is not None:
            require_for(binding.declaration.preconditions, inputs or {}, context)
        returned = _call(binding, inputs, context)
        result = outcome_of(returned)
        if isinstance(result, (Spawn, Pause)):
            why = unfit(result)
            return Outcome("logic", why) if why else result
        if binding.declaration.process and result is not returned:
            return Outcome("logic", no_process(binding.declaration.name, returned))
        outcome = _with_code(sound(result, what, halves))
        if binding.typed is None or binding.typed is not binding.function or outcome.failure:
            return outcome
        return held(binding.function, binding.declaration.name, outcome)
    except StorageFailed as lost:
        return lost
    except BaseException as error:  # a capability's own fault must not reach the engine
        if interrupts(error):
            raise
        return _with_code(outcome_of_fault(error))


def _with_code(outcome: Outcome) -> Outcome:
    """The outcome with the exit code that stands among its outputs: a program ran elsewhere, in a container."""
    code = outcome.outputs.get("exit_code") if outcome.exit_code is None else None
    return outcome._replace(exit_code=code) if type(code) is int else outcome


def outcome_of_fault(error: BaseException) -> Outcome:
    """The failed outcome that an exception of a capability stands for."""
    if not isinstance(error, Failure):
        return Outcome("logic", legible(said(error)), stderr=legible(traceback_of(error)))
    given: Any = error.failure
    outcome = Outcome("logic", str(error), error.outputs)
    if isinstance(given, str) and given:
        outcome = outcome._replace(retry_after=error.retry_after, retry=error.retry)
        return sound(outcome._replace(failure=given, rule=error.rule))
    named = "without a class" if given == "" else f"with {given!r} as its class, which is not text"
    return sound(failed(f"failed {named}", outcome))


def probe(binding: Binding, context: Context) -> bool | None:
    """Whether an earlier attempt took effect; None where the capability has no probe, cannot tell or raises."""
    if binding.declaration.probe is None:
        return None
    try:
        answer = _call(bind("", binding.declaration.probe, binding.function), context.call.inputs, context)
    except BaseException as error:  # a probe that fails tells nothing
        if interrupts(error):
            raise
        return None
    return answer if isinstance(answer, bool) else None


def _call(binding: Binding, inputs: dict[str, Json] | None, context: Context | None) -> Any:
    inputs = inputs or {}
    if inputs and binding.typed is not None:
        inputs = fitted(binding.typed, inputs)
    if binding.renamed:
        inputs = {binding.renamed.get(name, name): value for name, value in inputs.items()}
    with plugin_code():
        return binding.function(context, **inputs) if binding.wants_context else binding.function(**inputs)


def outcome_of(returned: Any) -> Outcome | Spawn | Pause:
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
    if hasattr(returned, "cr_frame"):
        returned.close()  # or Python would warn on standard error
        return Outcome("logic", "the function is an `async def`, which is not awaited: make it a plain function")
    return Outcome(outputs={"value": returned})
