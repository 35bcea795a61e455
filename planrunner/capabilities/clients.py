"""Client programs of other systems (docker, kubectl): safe arguments, their own environment, JSON answers."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from planrunner.capabilities.contract import Context, Failure
from planrunner.capabilities.files.scope import require_let
from planrunner.capabilities.programs import Ended, Program, run
from planrunner.frozen import EMPTY

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_LONGEST = 1_000
_OF_LIBRARIES = re.compile(r"[EWI]\d{4} \d\d:\d\d:\d\d\.\d+ ")
"""Lines of the log of kubectl, several for one fault, which it tells in a line of its own as well."""

_LARGEST_ANSWER = 16 << 20
_TRANSIENT = (
    "cannot connect to the docker daemon", "cannot connect to podman", "unable to connect to the server",
    "connection refused", "connection reset", "i/o timeout", "tls handshake timeout",
    "temporary failure in name resolution", "the server is currently unable to handle the request", "too many requests",
    "etcdserver: request timed out", "toomanyrequests",
)  # fmt: skip
_OF_CLIENTS = tuple("DOCKER_ BUILDX_ BUILDKIT_ CONTAINER KUBE LD_ XDG_ GO SSL_ PLANRUNNER_".split())
_OF_PROGRAMS = frozenset(
    "PATH HOME USER TMPDIR HTTP_PROXY HTTPS_PROXY NO_PROXY ALL_PROXY SHELL IFS ENV BASH_ENV".split()
)


class Request(NamedTuple):
    """One call of a client. ``settings`` are the variables of this process that it may see, beside the usual few and
    those of the task; ``env`` is laid over them."""

    arguments: tuple[str, ...]
    settings: tuple[str, ...] = ()
    stdin: bytes = b""
    env: Mapping[str, str] = EMPTY
    timeout: float | None = None
    loud: bool = False

    @property
    def shown(self) -> str:
        """The call as one would type it; values of variables and what is read from standard input do not show."""
        return shlex.join(self.arguments)


def call(context: Context, request: Request, fine: Sequence[int] = (0,)) -> Ended:
    """Run a client to its end. Raises Failure for an exit code that is not ``fine``: `transient` where its system could
    not be reached, else `logic`."""
    seen = {name: os.environ[name] for name in request.settings if name in os.environ}
    seen = {name: value for name, value in seen.items() if name not in context.call.env}
    env = {**seen, **request.env}
    ended = run(
        context,
        Program(
            *(request.arguments, "", env, request.stdin, _LARGEST_ANSWER, request.timeout),
            *(not request.loud, request.loud),
            own=True,
        ),
    )
    if ended.code not in fine:
        raise refused(request, ended)
    return ended


def refused(request: Request, ended: Ended) -> Failure:
    """The failure that an exit code stands for."""
    said = ended.stderr.decode("utf-8", "replace").strip()
    kind = "transient" if any(sign in said.lower() for sign in _TRANSIENT) else "logic"
    program, *words = request.arguments
    while words[:1] and words[0] in ("--context", "--namespace"):
        del words[:2]
    name = " ".join((program, *words[:1]))
    told = "\n".join(line for line in said.splitlines() if not _OF_LIBRARIES.match(line)) or said
    return Failure(f"`{name}` ended with {ended.code}: {told[-1_000:]}".rstrip(": "), kind, {"exit_code": ended.code})


def answers(ended: Ended) -> Iterator[Any]:
    """The JSON values that a client printed one after the other. Raises Failure for anything else."""
    if ended.dropped:
        raise Failure(f"the answer is larger than {_LARGEST_ANSWER >> 20} MiB: ask for less")
    text, at, decoder = ended.text, 0, json.JSONDecoder()
    while at < len(text):
        if text[at].isspace():
            at += 1
            continue
        try:
            value, at = decoder.raw_decode(text, at)
        except (ValueError, RecursionError):
            raise Failure(f"the client did not answer with JSON: {text[at : at + 100]!r}") from None
        yield value


def answer(ended: Ended) -> Any:
    """The one JSON value that a client printed; None where it printed nothing."""
    return next(answers(ended), None)


def word(value: object, name: str, pattern: str = r"[^\s\x00-\x1f\x7f]+") -> str:
    """A value that becomes an argument of its own. Raises Failure (policy) for one that a client could take for an
    option, and for what does not fit ``pattern`` as a whole."""
    text = value if isinstance(value, str) else ""
    if text.startswith("-"):
        raise Failure(f"`{name}` may not start with a dash: {text[:60]!r}", rule="clients.option")
    if not text or len(text) > _LONGEST or not re.fullmatch(pattern, text):
        raise Failure(f"`{name}`: {str(value)[:60]!r} is not a valid value", rule="clients.value")
    return text


def inside(
    context: Context, path: object, name: str, way: Literal["read", "write"] = "read", whole: bool = True
) -> str:
    """An existing file or folder of the working directory as an absolute path without links. Raises Failure (policy)
    for one that leads out of it, and for one that the policy does not let be read, or written, with all that is in it
    where the ``whole`` is handed over."""
    if not isinstance(path, str) or not path or "\0" in path:
        raise Failure(f"`{name}`: {path!r} is not a path")
    root = os.path.realpath(context.call.directory)
    real = os.path.realpath(os.path.join(root, path))
    if real != root and not real.startswith(root.rstrip("/") + "/"):
        raise Failure(f"`{name}`: {path} is outside the working directory", rule="files.beneath")
    require_let(context, path, way, whole)
    if not os.path.lexists(real):
        raise Failure(f"`{name}`: {path} does not exist")
    return real


def variables(values: object, name: str) -> dict[str, str]:
    """Variables that are handed to a client by name, their values in its environment and never among its arguments.
    Raises Failure (policy) for names that would steer the client itself."""
    if not isinstance(values, dict):
        raise Failure(f"`{name}`: expected a map of names to values")
    for key in values:
        if not isinstance(key, str) or not _NAME.fullmatch(key):
            raise Failure(f"`{name}`: {key!r} is not a variable name", rule="clients.env")
        if key.upper() in _OF_PROGRAMS or key.upper().startswith(_OF_CLIENTS):
            raise Failure(f"`{name}`: `{key}` would steer the client program; choose another name", rule="clients.env")
    texts = {key: value if isinstance(value, str) else json.dumps(value) for key, value in values.items()}
    if any("\0" in text for text in texts.values()):
        raise Failure("a variable cannot hold a zero byte")
    return texts


def bounded(text: str, most: int = 65_536) -> str:
    """The end of a text, where the point of an output mostly is."""
    return text if len(text) <= most else "…" + text[-most:]
