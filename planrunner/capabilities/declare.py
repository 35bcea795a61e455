"""The decorator that makes a function a capability: it only tags, so that importing a plugin costs next to nothing.

Schema, documentation, completion and lint come from the signature and are read when somebody asks (``signature.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

if TYPE_CHECKING:
    from planrunner.capabilities.contract import Preview
    from planrunner.plan.model import EffectClass

Function = TypeVar("Function", bound=Callable[..., Any])

TAG = "__planrunner_capability__"


class Doc:
    """What a parameter is for, in an annotation: ``city: Annotated[str, Doc("name of the city")]``.

    ``quantity`` names a type of the plan language that Python has no word for: duration, size or money. ``code`` is the
    media type of an input that is code (application/sql, text/x-python): lint refuses templates in it. ``form`` is what
    is known of a text beside that it is one: http-address, http-status, http-condition, or that it names a file
    (file-read, file-written; file-mounted where ``write`` beside it says which; file-pattern, file-diff, file-database,
    file-function where it may be one of these), which policies judge before the call. ``use`` says what a value becomes
    that foreign text may not become (``plan/taint/known.py`` lists them): command, url, script, prompt …
    """

    __slots__ = ("code", "form", "quantity", "text", "use")

    def __init__(self, text: str, quantity: str = "", code: str = "", form: str = "", *, use: str = "") -> None:
        self.text = text
        self.quantity = quantity
        self.code = code
        self.form = form
        self.use = use


BESIDE = ("preview", "capture", "undo", "probe")
"""What a declaration may name beside the capability: functions that are called by themselves."""


class Declaration(NamedTuple):
    """What the decorator was told. ``process`` functions return a ``Spawn`` at once and are called without a thread;
    ``probe`` takes the same inputs and says whether an earlier attempt took effect (True, False, None: cannot tell)."""

    name: str
    effect: EffectClass = "unsafe"
    instant: bool = False
    process: bool = False
    takes_run: bool = False
    open_inputs: bool = False
    open_outputs: bool = False
    probe: Callable[..., bool | None] | None = None
    risks: tuple[str, ...] = ()
    spends: tuple[str, ...] = ()
    """What an attempt uses that costs: cost, tokens, calls. A plan with a budget for it has to say how much a task may
    use; of calls one is set aside where nothing is said, with ``rest`` among them all that are left: it sends more
    requests than anybody knows before."""
    preview: Callable[..., Preview] | None = None
    """Takes the same inputs and tells what an attempt would do: the diff or the exact calls. It changes nothing."""
    capture: Callable[..., dict[str, Any]] | None = None
    """Takes the same inputs, before the first attempt, and gives as JSON data what ``undo`` has to know of the state
    before; it is durable before the attempt starts."""
    undo: Callable[..., dict[str, Any] | None] | None = None
    """``undo(context, before, outputs)``: the exact inverse, given what ``capture`` found and the outputs (None where
    nobody saw the end). Twice is the same as once; also right where the effect happened in part or not at all. It may
    give ``changed``: False where there was nothing to take back."""
    irreversible: bool = False
    """Nothing can take back what it does."""
    foreign: tuple[str, ...] = ()
    """Outputs that somebody outside wrote: an answer, a page, the text of a model. ``*`` stands for all."""
    own: tuple[str, ...] = ()
    """Outputs that the capability makes itself, such as a digest, whatever it was given; ``verdicts.*.met`` is a member
    of each item of a list. All others count as made of the inputs, unless their type is a number or a closed choice."""
    shaped: Mapping[str, str] = {}
    """Outputs that fit a JSON Schema which an input holds, by name: ``{"json": "schema"}``."""
    preconditions: tuple[str, ...] = ()
    """What must be there before it acts, such as ``program git`` (``preconditions.py`` lists the kinds): looked up
    before a run starts, and again before each call."""
    writes: tuple[str, ...] = ()
    """Inputs that name files, or hold items with a ``path``, into which the other inputs, or what comes from outside,
    are written."""


def capability(name: str, *, effect: EffectClass = "unsafe", **options: Any) -> Callable[[Function], Function]:
    """Tag a function as the capability ``name`` (``family.verb``); ``options`` are the other fields of ``Declaration``.

    The function's parameters are the inputs; one named ``context``, in the first place, is handed the ``Context``. It
    returns its outputs (a dict, TypedDict or NamedTuple; any other value becomes the output ``value``), an ``Outcome``,
    a ``Spawn`` or a ``Pause``. An input whose name is a Python keyword belongs to the parameter with ``_`` appended.
    Raises TypeError for an unknown option.
    """
    declaration = Declaration(name, effect, **options)

    def tag(function: Function) -> Function:
        vars(function)[TAG] = declaration
        return function

    return tag


def declaration_of(function: object) -> Declaration | None:
    """The tag of a function, or None where it has none."""
    found = getattr(function, TAG, None)
    return found if isinstance(found, Declaration) else None
