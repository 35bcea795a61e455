"""What the engine does for a capability while it runs: settings of the project, artifacts, a cache, an environment."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, BinaryIO

from planrunner.capabilities.contract import Call, Enclosed, Failure, basic_environment
from planrunner.engine.effects import UNDO
from planrunner.engine.granting import Grant, conceal, grant, needed
from planrunner.errors import NotFound, PlanInvalid, UsageError
from planrunner.journal.chain import Chain
from planrunner.journal.notes import read_note, write_note
from planrunner.journal.verifying import known_chain
from planrunner.knowledge.artifacts import ArtifactStore, SecretFound
from planrunner.safety.project import read_data, unsound

if TYPE_CHECKING:
    from planrunner.engine.tails import Secrecy
    from planrunner.engine.vault import Vault
    from planrunner.safety.sandbox.tally import Tally

Json = Any


class AttemptServices:
    """The ``Services`` of one attempt; ``kept`` are the artifacts that it made. ``directory`` is that of the run, and
    ``environment`` that of the runner (None: that of this process), of which a program that the attempt starts gets
    little beside the variables of its ``own``."""

    __slots__ = (
        "_chain",
        "_directory",
        "_environment",
        "_lock",
        "_own",
        "_state_dir",
        "_vault",
        "enclose",
        "kept",
        "refused",
        "secrecy",
    )

    def __init__(
        self,
        state_dir: str,
        directory: str,
        environment: Mapping[str, str] | None,
        own: Mapping[str, str],
        vault: Vault | None = None,
    ) -> None:
        self._state_dir = state_dir
        self._directory = directory
        self._environment = {**basic_environment(os.environ if environment is None else environment), **own}
        self._own = own
        self._lock = threading.Lock()
        self._vault = vault
        self._chain: Chain | None = None
        self.kept: list[dict[str, Json]] = []
        self.enclose: Callable[[Sequence[str], Mapping[str, str], str], Enclosed | None] | None = None
        """How a program has to be started to be shut in; None where no policy says so."""
        self.secrecy: Secrecy | None = None
        """What is kept from all that the run keeps or shows; None where nobody looks for anything."""
        self.refused: Tally | None = None
        """What was refused to such programs."""

    def settings(self, section: str) -> dict[str, Json]:
        try:
            found = read_data(self._directory).get(section)
        except PlanInvalid as error:
            raise Failure(unsound(error), "policy", rule="settings") from None
        except UsageError as error:
            raise Failure(error.message, "policy", rule="settings") from None
        return found if isinstance(found, dict) else {}

    def keep(self, content: bytes | str | int, name: str, type: str) -> dict[str, Json]:
        _require_name(name)
        store = ArtifactStore(self._state_dir, None if self.secrecy is None else self.secrecy.redactor)
        try:
            if isinstance(content, bytes):
                found = store.keep_bytes(content, name, type)
            elif isinstance(content, int):
                found = store.keep_open(content, name, type)
            else:
                found = store.keep(content, name, type)
        except SecretFound as refused:
            raise Failure(
                f"the artifact `{name}` cannot be kept: {refused.strerror}", "policy", rule="secret.kept"
            ) from None
        record: dict[str, Json] = {"name": name, "type": type, **found}
        with self._lock:
            if record not in self.kept:
                self.kept.append(record)
        return record

    def artifact(self, sha256: str) -> BinaryIO:
        try:
            return ArtifactStore(self._state_dir).open(sha256)
        except NotFound as error:
            raise Failure(error.message) from None

    def cache(self, name: str) -> str:
        if not name.replace("-", "").isalnum():
            raise ValueError(f"{name!r} is no name for a cache")
        path = os.path.join(self._state_dir, "cache", name)
        os.makedirs(path, mode=0o700, exist_ok=True)
        return path

    def noted(self, name: str) -> str:
        return read_note(self._state_dir, name)

    def note(self, name: str, text: str) -> None:
        write_note(self._state_dir, self._own.get("PLANRUNNER_RUN_ID", ""), name, text)

    def mac(self, name: str, text: str) -> str:
        if self._chain is None:
            self._chain = known_chain(self._state_dir)
        return self._chain.mac_of_text(f"cache {name}\0{text}")

    def environment(self) -> dict[str, str]:
        return dict(self._environment)

    def directory(self) -> str:
        return self._directory

    def grant(self, call: Call) -> Grant:
        """What the process of the attempt is given of the secrets that its task declares. Raises Failure (policy)."""
        return grant(self._vault, call, anew=call.attempt > 1 or call.task.id.startswith(UNDO))

    def credential(self, name: str) -> str:
        """The value of a credential of the project, as text. Raises Failure (policy)."""
        return os.fsdecode(needed(self._vault, name).value(name))

    def conceal(self, name: str, value: str) -> None:
        if self.secrecy is not None:
            conceal(self.secrecy, name, value)

    def enclosed(self, arguments: Sequence[str], env: Mapping[str, str], directory: str) -> Enclosed | None:
        return None if self.enclose is None else self.enclose(arguments, env, directory)


def _require_name(name: str) -> None:
    """A name is a relative path such as `report/page one.html`, whoever later makes a file of it. Raises Failure."""
    parts = name.split("/") if type(name) is str else []
    if not parts or not all(map(_is_part, parts)):
        raise Failure(
            f"{name!r} is no name for an artifact: letters, digits, `.`, `_`, `-`, spaces within, and `/` between parts"
        )


def _is_part(part: str) -> bool:
    return part not in ("", ".", "..") and part.isprintable() and part == part.strip() and "\\" not in part
