"""What a capability declares, is given and gives back: the surface that built-ins and plugins share."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import IO, TYPE_CHECKING, Any, BinaryIO, Literal, Protocol, TypeVar

from planrunner.failures import Failure as Failure
from planrunner.frozen import EMPTY
from planrunner.jsontext import shown
from planrunner.later import Later
from planrunner.machine.events import ENDED, Outcome
from planrunner.plan.model import Task
from planrunner.records import Struct

if TYPE_CHECKING:
    from planrunner.knowledge.memory.layers import Layer, Part
    from planrunner.plan.expressions.quantities import amount, parse_duration, parse_money, parse_percent, parse_size
    from planrunner.plan.load import Loaded
    from planrunner.plan.model import Capability, EffectClass
    from planrunner.plan.rights import Level
    from planrunner.plan.tasks import declared_secrets
else:
    amount = Later("planrunner.plan.expressions.quantities:amount")
    parse_duration = Later("planrunner.plan.expressions.quantities:parse_duration")
    parse_money = Later("planrunner.plan.expressions.quantities:parse_money")
    parse_percent = Later("planrunner.plan.expressions.quantities:parse_percent")
    parse_size = Later("planrunner.plan.expressions.quantities:parse_size")
    declared_secrets = Later("planrunner.plan.tasks:declared_secrets")

Json = Any


OUTPUT_LIMIT = 1 << 20
"""Bytes of outputs that a task may write to its file, or print where they are read from its standard output."""


class Log(Protocol):
    """Where a capability writes what people may want to read; bounded and kept with the attempt."""

    def write(self, data: bytes, stream: str = "stdout") -> None: ...

    def beat(self) -> None: ...

    def spend(self, amounts: Mapping[str, Json]) -> None: ...

    @property
    def usage(self) -> Mapping[str, Json]:
        """What the attempt is known to have used so far."""


BY_MODEL = "what a model chose"
"""What a call is said to run whose command or code a model chose."""


class Call(Struct):
    """One attempt of one task, with every template rendered.

    ``script`` and ``values`` belong to tasks with ``run`` (see ``plan/shell/quoting.py``); ``directory`` is the working
    directory, ``scratch`` a folder of the attempt's own that is created when first needed. ``key`` is the idempotency
    key of the attempt, the same when it is issued again after a crash; ``once`` that of the task, the same for all
    attempts until the task is sent back or run again: what must happen once whatever fails on the way goes by it.
    ``reserved`` is what the attempt has set aside of whatever a budget limits (dollars, tokens, calls): a capability
    that spends uses no more. ``rights`` are the levels of policy that hold for it, empty where nothing restricts it.
    ``began`` is when the run did, in seconds since 1970 (0: not known); ``approved`` are the digests, ``sha256:…``, of
    what people were shown whole and approved of at the gates before the task. ``told`` is the path of an empty file
    without a name for what the process of the attempt tells, where a run has secrets (empty: it may have a name).
    ``purpose`` tells the work of the task from what undoes it.
    """

    run_id: str
    task: Task
    attempt: int
    key: str
    inputs: dict[str, Json]
    script: str
    arguments: tuple[str, ...]
    values: Mapping[str, str]
    env: Mapping[str, str]
    directory: str
    scratch: str
    timeout: float | None
    dry: bool = False
    once: str = ""
    reserved: Mapping[str, Json] = EMPTY
    rights: tuple[Level, ...] = ()
    began: float = 0.0
    approved: tuple[str, ...] = ()
    told: str = ""
    stdin: str = ""
    """What the process of the call reads from its standard input."""
    ready: str = ""
    """What tells that the process is ready, where it is a service; empty for any other call."""
    completed: Mapping[str, str] = EMPTY
    """The tasks that the task of the call needs and that completed, with the command or capability of each; empty for
    whatever does not record tests."""
    made: str = ""
    """A file of code with text from outside, written by a task of the run and seen by no person: programs of the call
    may run it. ``BY_MODEL`` where a model chose what the call runs. Empty without one."""
    purpose: Literal["act", "undo"] = "act"
    outside: str = ""
    """Why what the call writes is text from outside, in words; empty where nothing tells that it is."""

    @property
    def name(self) -> str:
        """The id of the task, with ``undo:`` before it for what undoes the task: its log and scratch go by it."""
        return self.task.id if self.purpose == "act" else f"undo:{self.task.id}"


class Services(Protocol):
    """What the engine does for capabilities beside calling them; see the methods of ``Context``."""

    def settings(self, section: str) -> dict[str, Json]: ...

    def keep(self, content: bytes | str | int, name: str, type: str) -> dict[str, Json]: ...

    def artifact(self, sha256: str) -> BinaryIO: ...

    def version(self, ref: str) -> tuple[dict[str, Json], ...]: ...

    def cache(self, name: str) -> str: ...

    def noted(self, name: str) -> str: ...

    def note(self, name: str, text: str) -> None: ...

    def mac(self, name: str, text: str) -> str:
        """What only planrunners of this user can say of a text under a name; empty without a key."""

    def environment(self) -> dict[str, str]: ...

    def credential(self, name: str) -> str: ...

    def conceal(self, name: str, value: str) -> None: ...

    def directory(self) -> str:
        """The working directory of the run, whatever ``cwd`` the task has."""

    def memory(self, layer: str, part: Part, stopped: Callable[[], bool]) -> Layer: ...

    def cleaned(self, value: Json) -> Json: ...

    def enclosed(
        self, arguments: Sequence[str], env: Mapping[str, str], directory: str, made: str = ""
    ) -> Enclosed | None: ...

    def planning(self) -> Planning: ...

    def lasting(self, name: str, make: Callable[[], Lasting]) -> Lasting: ...


class Planning(Protocol):
    """What a capability that writes plans is told: see ``engine/planning.py``."""

    def check(self, text: str, path: str) -> Loaded: ...

    def callable(self) -> list[Capability]: ...

    def current(self) -> tuple[str, str, str]: ...

    def progress(self) -> str: ...


class Lasting(Protocol):
    """What a capability keeps open beyond its call, such as the connection to a server; any thread may use it."""

    @property
    def over(self) -> bool:
        """Whether nothing of it is left."""

    @property
    def pid(self) -> int:
        """The process that it has started; 0 where there is none."""

    def end(self, forced: bool) -> None:
        """Begin to end it, in order or, where ``forced``, at once; comes back without waiting."""

    def wait(self) -> None:
        """Until nothing of it is left."""


class Enclosed(Protocol):
    """How a program is started so that it is shut in, and what is asked of it while it runs and afterwards."""

    arguments: tuple[str, ...]
    env: dict[str, str]
    directory: str

    descriptors: tuple[int, ...]

    def started(self) -> None: ...

    def check(self, pid: int, printed: int) -> None: ...

    def over(self) -> None: ...


Kept = TypeVar("Kept", bound=Lasting)


class Context(Struct):
    """Handed to a capability function whose first parameter is named ``context``."""

    call: Call
    log: Log
    cancelled: Callable[[], bool]
    """True once the attempt should stop (timeout, Ctrl-C); long-running functions look at it now and then."""
    services: Services | None = None
    """None where a function is called without an engine: it then has no settings and can keep nothing."""

    def settings(self, section: str) -> dict[str, Json]:
        """A section of ``planrunner.yaml``, such as ``network``; empty where the project says nothing. With ``network``
        come the ``levels`` of policy that hold for the call. Raises Failure (policy) for a file that is not sound."""
        values = self.services.settings(section) if self.services is not None else {}
        if section == "network" and self.call.rights:
            return {**values, "levels": self.call.rights}
        return values

    def keep(self, data: bytes, name: str, type: str = "") -> dict[str, Json]:
        """Keep bytes as an artifact of the attempt; gives its record: name, type, sha256, size in bytes."""
        return self._served().keep(data, name, type)

    def keep_file(self, path: str, name: str, type: str = "") -> dict[str, Json]:
        """Like ``keep`` for a file or a directory; a relative path is meant from the working directory. Raises OSError
        for what cannot be kept."""
        return self._served().keep(os.path.join(self.call.directory, path), name, type)

    def keep_open(self, file: IO[Any], name: str, type: str = "") -> dict[str, Json]:
        """Like ``keep`` for an open file, from its beginning on; it needs no name."""
        file.flush()
        file.seek(0)
        return self._served().keep(file.fileno(), name, type)

    def artifact(self, sha256: str) -> BinaryIO:
        """The bytes of an artifact as a file. Raises Failure where the store has none of that digest."""
        return self._served().artifact(sha256)

    def version(self, ref: str) -> tuple[dict[str, Json], ...]:
        """The records of the files of an artifact that some run kept, by an address as in ``planrunner artifacts get``;
        without a version the newest of an attempt that did not fail. Raises Failure where there is none."""
        return self._served().version(ref)

    def cache(self, name: str) -> str:
        """A folder for what can be found out again, shared by all runs of the project."""
        return self._served().cache(name)

    def noted(self, name: str) -> str:
        """What ``note`` kept under that name; empty where there is nothing, as without an engine."""
        return "" if self.services is None else self.services.noted(name)

    def note(self, name: str, text: str) -> None:
        """Keep a text about an act that is about to begin in place of what that name had; empty removes it. It is
        durable on return and stays until a month after the end of the run, whatever becomes of the cache, so that the
        attempt that is issued again after a crash, or an undo, knows what was under way. Names belong to all runs of
        the project: make them from the key of the call. Raises StorageFailed; without an engine nothing is kept."""
        if self.services is not None:
            self.services.note(name, text)

    def vouched(self, name: str, text: str) -> str:
        """A text as it is to be stored in a cache, where others may put files: with what only planrunners of this user
        can say of it under that name. The name tells what the text is of, such as an address."""
        return f"{self._served().mac(name, text)}\n{text}"

    def opened(self, name: str, stored: str) -> str | None:
        """The text that ``vouched`` was given under the same name; None for anything else, which is as good as not
        there. Without a home of the user the key is missing, and whatever is stored so is opened."""
        mac, _, text = stored.partition("\n")
        return text if mac == self._served().mac(name, text) else None

    def environment(self) -> dict[str, str]:
        """The environment for a program that the capability starts: little of this process, the task's own variables,
        and those by which what it leaves behind is found."""
        if self.services is not None:
            return self.services.environment()
        return {**basic_environment(os.environ), **self.call.env}

    def secret(self, name: str) -> str:
        """The value of a credential that the task declares under ``secrets``. Nothing that the attempt gives, prints or
        keeps shows it. Raises Failure (policy) where the task declares none of that name, or it cannot be had."""
        if name not in {wish.id for wish in declared_secrets(self.call.task.secrets)}:
            message = f"the task does not declare the secret `{name}`: add `secrets: [{name}]`"
            raise Failure(message, rule="secret.undeclared")
        return self._served().credential(name)

    def credential(self, name: str) -> str:
        """Like ``secret`` for one that the project's own settings name, such as the key of a model; never for a name
        out of a plan."""
        return self._served().credential(name)

    def conceal(self, name: str, value: str) -> None:
        """From now on have the run write ``[secret:NAME]`` instead of a value, such as a key out of a variable, in all
        that it keeps or shows; one of fewer than 6 bytes stands in any text by chance and is left."""
        if self.services is not None:
            self.services.conceal(name, value)

    def cleaned(self, text: str) -> str:
        """A text without the secrets of the run that are known by now."""
        return text if self.services is None else str(self.services.cleaned(text))

    def memory(self, layer: str, part: Part = "entries") -> Layer:
        """A layer of memory (task, project, global), to be closed after use; what it keeps holds no secret. Raises
        UsageError for an unknown one, and one without a place."""
        return self._served().memory(layer, part, self.cancelled)

    def enclosed(
        self, arguments: Sequence[str], env: Mapping[str, str], directory: str, made: str = ""
    ) -> Enclosed | None:
        """How a program has to be started where the policy shuts it in, or where it runs code that was ``made`` while
        the run went on and that no person saw; None: as it is. Raises Failure (policy) where that cannot be done.
        ``programs.run_program`` asks this itself."""
        if self.services is not None:
            return self.services.enclosed(arguments, env, directory, made)
        if made:
            raise Failure(f"`{made}` was made while the run went on, and nothing shuts it in here", rule="sandbox")
        return None

    def planning(self) -> Planning:
        """The plan language as the project may use it, and the run as it stands; for what writes plans."""
        return self._served().planning()

    def lasting(self, name: str, make: Callable[[], Kept]) -> Kept:
        """What stays open until the run ends, by a name: made by the first call that asks for it, and again once it is
        over. The name has to tell apart whatever may not be shared. Raises Failure while the run ends."""
        return self._served().lasting(name, make)  # type: ignore[return-value]

    def _served(self) -> Services:
        if self.services is None:
            raise RuntimeError("this context belongs to no engine, so it keeps nothing")
        return self.services

    def beat(self) -> None:
        """Give a sign of life to the task's ``heartbeat``; writing to the log is one as well."""
        self.log.beat()

    def spend(self, cost: float | None = None, tokens: int | None = None, calls: int | None = None) -> None:
        """Tell what the attempt has used since the last time, cost in dollars; it counts even if the attempt fails."""
        given = {"cost": cost, "tokens": tokens, "calls": calls}
        self.log.spend({what: more for what, more in given.items() if more is not None})


class Preview(Struct):
    """What an attempt would do: in a line, as a unified diff, and as the exact calls in their order."""

    summary: str
    diff: str = ""
    calls: tuple[str, ...] = ()


_INHERITED = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "LC_CTYPE", "TMPDIR", "TZ")


def basic_environment(whole: Mapping[str, str]) -> dict[str, str]:
    """The few variables of this process that a program needs to work and that tell it nothing else."""
    return {name: whole[name] for name in _INHERITED if name in whole}


class Spawn(Struct):
    """Returned by a capability that is a process: the engine starts it, streams its output, and kills its group at the
    timeout. ``finish`` turns exit code and tails into the outcome; None means: zero is success, else a logic failure.
    ``env`` is laid over the environment the run gives its processes; an empty ``directory`` means that of the run."""

    arguments: tuple[str, ...]
    env: Mapping[str, str]
    directory: str
    stdin: bytes = b""
    finish: Callable[[Exit], Outcome] | None = None
    keep: int = 65536
    """How many bytes at the end of its standard output ``finish`` gets to see."""
    descriptors: tuple[int, ...] = ()
    """Open descriptors that the process gets as 3, 4, …"""
    made: str = ""
    """The code that it runs, where that was made while the run went on and no person saw it."""


class Exit(Struct):
    """How a process ended. ``code`` is the exit code or minus the signal number; the tails are bounded text."""

    code: int
    duration: float
    stdout: str
    stderr: str
    timed_out: bool = False
    interrupted: bool = False
    dropped: int = 0
    """Bytes of standard output before the tail, which are not kept."""


class Pause(Struct):
    """Returned by a capability that lets time pass: the engine ends the attempt with ``outcome`` after ``seconds``."""

    seconds: float
    outcome: Outcome = ENDED


Function = TypeVar("Function", bound=Callable[..., Any])

TAG = "__planrunner_capability__"


class Doc:
    """What a parameter is for, in an annotation: ``city: Annotated[str, Doc("name of the city")]``.

    ``quantity`` names a type of the plan language that Python has no word for: duration, size or money. ``code`` is the
    media type of an input that is code (application/sql, text/x-python, application/x-sh): lint refuses templates in
    it. ``form`` is what is known of a value beside its type: http-address, http-status, http-condition, fraction, that
    an output is a number of bytes or seconds, which expressions compare with sizes and durations, or that it names a
    file (file-read, file-written; file-mounted where ``write`` beside it says which; file-pattern,
    file-diff, file-database, file-function where it may be one of these), which policies judge before the call. ``use``
    says what a value becomes that foreign text may not become (``plan/taint/traits.py`` lists them): command, url,
    script, prompt …
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


class Declaration(Struct):
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
    the end was not seen). Twice is the same as once; also right where the effect happened in part or not at all. It may
    give ``changed``: False where there was nothing to take back."""
    irreversible: bool = False
    """Nothing can take back what it does."""
    foreign: tuple[str, ...] = ()
    """Outputs of untrusted text: an answer, a page, the text of a model. ``*`` stands for all."""
    own: tuple[str, ...] = ()
    """Outputs that the capability makes itself, such as a digest, whatever it was given; ``verdicts.*.met`` is a member
    of each item of a list. All others count as made of the inputs, unless their type is a number or a closed choice."""
    shaped: Mapping[str, str] = EMPTY
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
    declaration = getattr(function, TAG, None)
    return declaration if isinstance(declaration, Declaration) else None


def seconds(value: object) -> float:
    """``10``, ``"10s"``, ``"1h30m"``, ``"12.5"`` as seconds; raises ValueError for anything else or a negative one."""
    return _amount(value, parse_duration, "a duration such as 10s")


def size(value: object) -> int:
    """``1024``, ``"50MB"``, ``"2GiB"`` as bytes; raises ValueError for anything else or a negative one."""
    return int(_amount(value, parse_size, "a size such as 50MB"))


def money(value: object) -> float:
    """``0.5``, ``"$2"`` as US dollars; raises ValueError for anything else or a negative one."""
    return _amount(value, parse_money, "an amount of money such as $0.50")


def percent(value: object) -> float:
    """``0.25``, ``"25%"`` as a fraction; raises ValueError for anything else or a negative one."""
    return _amount(value, parse_percent, "a percentage such as 25%")


def _amount(value: object, parse: Callable[[str], float | None], wanted: str) -> float:
    number = amount(value, parse)
    if number is None:
        raise ValueError(f"expected {wanted}, found {shown(value)}")
    return number
