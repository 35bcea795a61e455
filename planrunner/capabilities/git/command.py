"""Running git so that nothing decides what happens but its arguments.

Neither the settings of the user and the machine, nor hooks, nor variables of the caller reach it. Protections travel in
the environment, so that what git starts itself has them too, and a preview shows the arguments as they are run.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Mapping
from typing import NamedTuple

from planrunner.capabilities.contract import Context, Failure
from planrunner.capabilities.programs import Ended, Program, run
from planrunner.frozen import EMPTY

LIMIT = 64 << 20
"""Bytes of output that are read where all of it is needed."""

ENVIRONMENT = {
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_SYSTEM": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_ASKPASS": "false",
    "SSH_ASKPASS": "false",
    "GIT_SSH_COMMAND": "false",
    "GIT_EDITOR": "false",
    "GIT_SEQUENCE_EDITOR": "false",
    "GIT_PAGER": "cat",
    "GIT_PROXY_COMMAND": "",
    "GIT_ALLOW_PROTOCOL": "",
    "GIT_PROTOCOL_FROM_USER": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_LITERAL_PATHSPECS": "1",
    "HOME": "/dev/null",
    "LC_ALL": "C",
}
"""No settings but the repository's, no questions, no transport (``transport.py`` opens one), no locks for looking."""

SETTINGS = (
    ("core.hooksPath", "/dev/null"),
    ("core.fsmonitor", "false"),
    ("core.attributesFile", "/dev/null"),
    ("core.excludesFile", "/dev/null"),
    ("core.protectHFS", "true"),
    ("core.protectNTFS", "true"),
    ("core.splitIndex", "false"),
    ("safe.bareRepository", "explicit"),
    ("credential.helper", ""),
    ("submodule.recurse", "false"),
    ("diff.ignoreSubmodules", "all"),
    ("diff.relative", "false"),
    ("status.submoduleSummary", "false"),
    ("fetch.recurseSubmodules", "false"),
    ("push.recurseSubmodules", "no"),
    ("commit.gpgSign", "false"),
    ("tag.gpgSign", "false"),
    ("tag.forceSignAnnotated", "false"),
    ("push.gpgSign", "false"),
    ("push.pushOption", ""),
    ("i18n.commitEncoding", "UTF-8"),
    ("i18n.logOutputEncoding", "UTF-8"),
    ("log.showSignature", "false"),
    ("merge.verifySignatures", "false"),
    ("rerere.enabled", "false"),
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
    ("transfer.fsckObjects", "true"),
    ("fetch.fsck.zeroPaddedFilemode", "warn"),
    ("fetch.fsck.missingSpaceBeforeDate", "warn"),
    ("fetch.fsck.missingEmail", "warn"),
    ("fetch.fsck.badTimezone", "warn"),
    ("http.followRedirects", "false"),
    ("http.sslVerify", "true"),
    ("http.proxy", ""),
    ("http.extraHeader", ""),
    ("http.saveCookies", "false"),
)
"""Laid over what the repository says. What cannot be switched off so is refused (``configuration.py``)."""

_KEPT = ("TMPDIR", "TZ", "USER", "LOGNAME")
_CONTROL = re.compile(rb"[\x00-\x08\x0b-\x1f\x7f]|\xc2[\x80-\x9f]")


class Refused(Failure):
    """Git ended with an error; ``said`` is what it wrote, as one text that shows on any terminal."""

    def __init__(self, message: str, said: str, failure: str = "logic") -> None:
        super().__init__(message, failure)
        self.said = said


class Git(NamedTuple):
    """Git with everything it is to be told beside its arguments."""

    context: Context
    directory: str
    settings: tuple[tuple[str, str], ...] = SETTINGS
    variables: Mapping[str, str] = EMPTY

    def run(
        self, *arguments: str, stdin: bytes = b"", ok: tuple[int, ...] = (0,), index: str = "", limit: int = LIMIT
    ) -> Ended:
        """Run git; ``index`` is another index than that of the repository. Raises Refused for any exit code that is not
        ``ok``, and Failure where more is printed than ``limit``."""
        ended = self._ended(arguments, stdin, ok, index, limit)
        if ended.dropped:
            raise Failure(f"git {arguments[0]} printed more than {limit} bytes")
        return ended

    def first(self, limit: int, *arguments: str) -> tuple[bytes, bool]:
        """The first bytes that git prints, and whether there are more."""
        ended = self._ended(arguments, b"", (0,), "", limit)
        return ended.stdout, ended.dropped > 0

    def _ended(self, arguments: tuple[str, ...], stdin: bytes, ok: tuple[int, ...], index: str, limit: int) -> Ended:
        variables = {"GIT_INDEX_FILE": index} if index else {}
        environment = {**self.environment(), **variables}
        loud = self.variables.get("GIT_ALLOW_PROTOCOL", "") != ""
        context = self.context._replace(log=Escaped(self.context.log)) if loud else self.context
        call = Program((program(), *arguments), self.directory, environment, stdin, limit, None, not loud, own=True)
        ended = run(context, call)
        if ended.code not in ok:
            said = shown(b"\n".join((ended.stdout[-2000:].strip(), ended.stderr.strip())).strip())
            raise Refused(f"git {arguments[0]}: {_gist(said) or f'ended with {ended.code}'}", said)
        return ended

    def text(self, *arguments: str, index: str = "") -> str:
        """What git prints, without the end of the line."""
        return os.fsdecode(self.run(*arguments, index=index).stdout).rstrip("\n")

    def raw(self, *arguments: str, index: str = "") -> bytes:
        """The bytes that git prints."""
        return self.run(*arguments, index=index).stdout

    def maybe(self, *arguments: str) -> str:
        """What git prints, or nothing where it says no (exit code 1)."""
        return os.fsdecode(self.run(*arguments, ok=(0, 1)).stdout).rstrip("\n")

    def items(self, *arguments: str, index: str = "") -> list[str]:
        """What git prints with ``-z``."""
        return [item for item in os.fsdecode(self.run(*arguments, index=index).stdout).split("\0") if item]

    def environment(self) -> dict[str, str | None]:
        """The variables to lay over those of the attempt; None takes one away."""
        given = self.context.environment()
        kept = {name for name in given if name in _KEPT or name.startswith("PLANRUNNER_")}
        result: dict[str, str | None] = {name: None for name in given if name not in kept}
        result |= ENVIRONMENT | {"PATH": os.environ.get("PATH", os.defpath)} | dict(self.variables)
        result["GIT_CONFIG_COUNT"] = str(len(self.settings))
        for number, (key, value) in enumerate(self.settings):
            result[f"GIT_CONFIG_KEY_{number}"] = key
            result[f"GIT_CONFIG_VALUE_{number}"] = value
        return result


class Escaped:
    """A log that shows what others wrote without obeying it: control characters are written out."""

    __slots__ = ("_carried", "_log")

    def __init__(self, log: object) -> None:
        self._log = log
        self._carried = b""

    def write(self, data: bytes, stream: str = "stdout") -> None:
        data = self._carried + data
        cut = len(data) - 1 if data.endswith(b"\xc2") else len(data)
        self._carried = data[cut:]
        self._log.write(escaped(data[:cut]), stream)  # type: ignore[attr-defined]

    def beat(self) -> None:
        self._log.beat()  # type: ignore[attr-defined]

    def spend(self, amounts: Mapping[str, object]) -> None:
        self._log.spend(amounts)  # type: ignore[attr-defined]

    @property
    def usage(self) -> Mapping[str, object]:
        return self._log.usage  # type: ignore[attr-defined,no-any-return]


def escaped(data: bytes) -> bytes:
    """The bytes with control characters, but for line ends and tabs, written out."""
    return _CONTROL.sub(lambda found: b"".join(b"\\x%02x" % byte for byte in found[0]), data)


def shown(data: bytes) -> str:
    """The text of bytes from outside."""
    return escaped(data).decode("utf-8", "replace")


def program() -> str:
    """Where git is, looked up as the operator would, never by what a plan says."""
    found = shutil.which("git")
    if found is None:
        raise Failure("git is not installed: no program of this name is on PATH")
    return found


def plain_call(*arguments: str) -> str:
    """The command as a preview shows it, in one line, quoted for a shell."""

    def quoted(text: str) -> str:
        if "\n" not in text:
            return shlex.quote(text)
        return "$'" + text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n") + "'"

    return " ".join(quoted(argument) for argument in ("git", *arguments))


def _gist(said: str) -> str:
    """The line that says why: the first that git calls fatal or an error, else the last."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    marked = [line for line in lines if line.startswith(("fatal: ", "error: ", "!\t", "remote: error"))]
    best = marked[0] if marked else lines[-1] if lines else ""
    return best.removeprefix("fatal: ").removeprefix("error: ")[:300]


_NO_REF = re.compile(r"[\x00-\x20\x7f~^:?*\[\\]|\.\.|@\{|//|/\.|\.lock(/|$)")


def checked_revision(text: str) -> str:
    """A name for one commit, such as ``HEAD~2``, ``main`` or a digest. Raises Failure."""
    if not text or text.startswith("-") or ".." in text or any(ord(char) < 33 or ord(char) == 127 for char in text):
        raise _unfit(f"{text!r} names no commit", text)
    return text


def checked_reference(text: str, kind: str = "branch") -> str:
    """The short name of a branch or tag, as git takes it. Raises Failure."""
    parts = text.split("/")
    wrong = not text or text in ("@", "HEAD") or text.startswith(("-", "/", ".")) or text.endswith(("/", "."))
    if wrong or _NO_REF.search(text) or any(part.startswith("-") for part in parts):
        other = ": an address is `url`" if kind == "remote" else ""
        raise _unfit(f"{text!r} is not a name for a {kind}{other}", text)
    return text


def checked_path(text: str, what: str = "path") -> str:
    """A path below the working directory, taken literally. Raises Failure (policy) for one that leads out of it."""
    if not text or "\0" in text:
        raise Failure(f"{text!r} is not a valid {what}")
    parts = text.split("/")
    if text.startswith("/") or ".." in parts:
        raise Failure(f"{text} is outside the working directory", rule="files.beneath")
    if any(part.lower() == ".git" for part in parts):
        raise Failure(f"{text} lies in what git itself keeps", rule="files.protected")
    return text


def _unfit(message: str, text: str) -> Failure:
    """The failure for a text that is not a name; one that git would take for an option is refused as such."""
    return Failure(message, rule="git.option") if text.startswith("-") else Failure(message)
