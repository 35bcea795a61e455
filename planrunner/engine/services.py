"""What the engine does for a capability while it runs: settings of the project, artifacts, a cache, an environment."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from planrunner.capabilities.contract import Call, Enclosed, Failure, Lasting, Planning, basic_environment
from planrunner.capabilities.files.scope import ground_of, require_within
from planrunner.engine.secrets import Grant, conceal, grant, needed
from planrunner.errors import NotFound, PlanInvalid, UsageError
from planrunner.files import match
from planrunner.files.beneath import Beneath
from planrunner.journal.artifacts import files_meant, versions
from planrunner.journal.chain import Chain, data_folder, known_chain
from planrunner.journal.stores import open_journal, read_note, write_note
from planrunner.knowledge.artifacts import ArtifactStore, SecretFound
from planrunner.knowledge.memory.layers import Layer, Part, open_layer
from planrunner.knowledge.memory.places import Place
from planrunner.machine.events import Outcome
from planrunner.plan.access import taken
from planrunner.plan.model import Artifact
from planrunner.safety.project import read_data, settings_files, unsound
from planrunner.safety.roster import named

if TYPE_CHECKING:
    from planrunner.engine.lasting import RunResources
    from planrunner.engine.output import Secrecy
    from planrunner.engine.secrets import Vault
    from planrunner.redaction import Redactor
    from planrunner.safety.sandbox.refusals import Tally

Json = Any


class AttemptServices:
    """The ``Services`` of one attempt; ``kept`` are the artifacts that it made. ``directory`` is that of the run, and
    ``environment`` that of the runner (None: that of this process), of which a program that the attempt starts gets
    little beside the variables of its ``own``."""

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
        self.enclose: Callable[[Sequence[str], Mapping[str, str], str, str], Enclosed | None] | None = None
        """How a program has to be started to be shut in; None where no policy says so."""
        self.secrecy: Secrecy | None = None
        """What is masked in all that the run keeps or shows; None without secrets."""
        self.refused: Tally | None = None
        """What was refused to such programs."""
        self.planner: Callable[[], Planning] | None = None
        """For what writes plans; None where the plan of the run names nothing of the kind."""
        self.open: RunResources | None = None
        """What lasts until the run ends; None where nothing may."""

    def settings(self, section: str) -> dict[str, Json]:
        try:
            values = read_data(self._directory).get(section)
            if section == "include":
                return {"files": settings_files(self._directory)[1:]}
        except PlanInvalid as error:
            raise Failure(unsound(error), "policy", rule="settings") from None
        except UsageError as error:
            raise Failure(error.message, "policy", rule="settings") from None
        if section == "tools":
            return named(values)
        return values if isinstance(values, dict) else {}

    def keep(self, content: bytes | str | int, name: str, type: str) -> dict[str, Json]:
        _require_name(name)
        store = ArtifactStore(self._state_dir, None if self.secrecy is None else self.secrecy.redactor)
        try:
            if isinstance(content, bytes):
                stored = store.keep_bytes(content, name, type)
            elif isinstance(content, int):
                stored = store.keep_open(content, name, type)
            else:
                stored = store.keep(content, name, type)
        except SecretFound as refused:
            raise Failure(
                f"the artifact `{name}` cannot be kept: {refused.strerror}", "policy", rule="secret.kept"
            ) from None
        record: dict[str, Json] = {"name": name, "type": type, **stored}
        with self._lock:
            if record not in self.kept:
                self.kept.append(record)
        return record

    def artifact(self, sha256: str) -> BinaryIO:
        try:
            return ArtifactStore(self._state_dir).open(sha256)
        except NotFound as error:
            raise Failure(error.message) from None

    def version(self, ref: str) -> tuple[dict[str, Json], ...]:
        try:
            with closing(open_journal(self._state_dir, readonly=True)) as journal:
                files = files_meant(ref, versions(journal, ""), journal, good=True)
        except (NotFound, UsageError) as error:
            raise Failure(f"{error.message}: {error.hint}" if error.hint else error.message) from None
        store = ArtifactStore(self._state_dir)
        for one in files:
            if not store.hold(one.sha256):
                why = f"; its retention is `{one.retention}`" if one.retention else ""
                raise Failure(f"the content of `{one.ref}` is not kept any more{why}")
        return tuple({**one._asdict(), "ref": one.ref} for one in files)

    def cache(self, name: str) -> str:
        if not name.replace("-", "").isalnum():
            raise ValueError(f"{name!r} is not a valid name for a cache")
        path = os.path.join(self._state_dir, "cache", name)
        os.makedirs(path, mode=0o700, exist_ok=True)
        return path

    def noted(self, name: str) -> str:
        return read_note(self._state_dir, name)

    def note(self, name: str, text: str) -> None:
        if self.secrecy is not None and self.secrecy.redactor is not None:
            text = self.secrecy.redactor.text(text)
        write_note(self._state_dir, self._own.get("PLANRUNNER_RUN_ID", ""), name, text)

    def memory(self, layer: str, part: Part, stopped: Callable[[], bool]) -> Layer:
        place = Place(self._state_dir, data_folder(), self._own.get("PLANRUNNER_RUN_ID", ""))
        return open_layer(layer, self.settings("memory"), place, part, self.cleaned, stopped)

    def cleaned(self, value: Json) -> Json:
        """JSON data without the secrets that are known by now."""
        redactor = None if self.secrecy is None else self.secrecy.redactor
        return value if redactor is None else redactor.data(value)

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
        return grant(self._vault, call, again=call.attempt > 1 or call.purpose == "undo")

    def credential(self, name: str) -> str:
        """The value of a credential of the project, as text. Raises Failure (policy)."""
        return os.fsdecode(needed(self._vault, name).value(name))

    def conceal(self, name: str, value: str) -> None:
        if self.secrecy is not None:
            conceal(self.secrecy, name, value)

    def planning(self) -> Planning:
        if self.planner is None:
            raise Failure("plans are written in a run only")
        return self.planner()

    def enclosed(
        self, arguments: Sequence[str], env: Mapping[str, str], directory: str, made: str = ""
    ) -> Enclosed | None:
        return None if self.enclose is None else self.enclose(arguments, env, directory, made)

    def lasting(self, name: str, make: Callable[[], Lasting]) -> Lasting:
        if self.open is None:
            raise Failure("only the work of a task keeps something open")
        return self.open.get(name, make)


def _require_name(name: str) -> None:
    """A name is a relative path such as `report/page one.html`, fit for a file name. Raises Failure."""
    parts = name.split("/") if type(name) is str else []
    if not parts or not all(map(_is_part, parts)):
        raise Failure(
            f"{name!r} is not a valid artifact name: use letters, digits, `.`, `_`, `-`, inner spaces,"
            " and `/` between parts"
        )


def _is_part(part: str) -> bool:
    return part not in ("", ".", "..") and part.isprintable() and part == part.strip() and "\\" not in part


def artifacts(
    call: Call, records: tuple[dict[str, Json], ...], state: str, redactor: Redactor | None = None
) -> tuple[dict[str, Json], ...]:
    """What an attempt kept, of which its capability told ``records``; text is kept without the secrets that
    ``redactor`` knows. Raises Failure for a file that cannot be kept."""
    said = {artifact.name: artifact for artifact in call.task.artifacts if not artifact.path}
    told = [_named(record, said.get(str(record.get("name")))) for record in records]
    return (*told, *_kept(call, state, redactor))


def _named(record: dict[str, Json], artifact: Artifact | None) -> dict[str, Json]:
    if artifact is None:
        return record
    told = {"type": artifact.type, "retention": artifact.retention}
    return {**record, **{key: text for key, text in told.items() if text}}


def _kept(call: Call, state: str, redactor: Redactor | None) -> Iterator[dict[str, Json]]:
    for artifact in call.task.artifacts:
        if artifact.path:
            for file in files_of(artifact, call.directory):
                yield _kept_file(call, artifact, file, state, redactor)


class Kept(NamedTuple):
    """A file that an artifact keeps: its name, its path, and the name of the artifact where its pattern gave several
    or has no name of its own."""

    name: str
    path: str
    group: str = ""


def _kept_file(call: Call, artifact: Artifact, file: Kept, state: str, redactor: Redactor | None) -> dict[str, Json]:
    """The record of a file that was kept. Raises Failure."""
    name, path, group = file
    try:
        record = keep_beneath(state, call.directory, path, redactor)
    except Failure as failure:
        raise Failure(f"the artifact `{name}` cannot be kept: {failure}", failure.failure, rule=failure.rule) from None
    except SecretFound as refused:
        message = f"the artifact `{name}` cannot be kept: {path}: {refused.strerror}"
        raise Failure(message, "policy", rule="secret.kept") from None
    except OSError as error:
        raise Failure(f"the artifact `{name}` is missing: {path}: {error.strerror}") from None
    said = {key: text for key, text in (("group", group), ("retention", artifact.retention)) if text}
    return {"name": name, "path": path, "type": artifact.type, **said, **record}


_STOPPED = frozenset({"interrupted", "cancelled", "unstarted"})
"""Classes of attempts that are over before they had a result; the task may yet go on."""


def rescued(call: Call, outcome: Outcome, top: str, state: str, redactor: Redactor | None = None) -> Outcome:
    """The outcome of an attempt that failed with the artifacts that it left all the same, such as the report of a red
    test run, each marked as ``failed``. What is missing, or lay there before the run began, is left out; the message
    names what may not be kept. The run works in ``top``."""
    if outcome.failure in _STOPPED or call.purpose != "act" or any("path" in each for each in outcome.artifacts):
        return outcome
    found: list[dict[str, Json]] = []
    for artifact in call.task.artifacts:
        try:
            ground = ground_of(top, call.directory)
            for file in files_of(artifact, call.directory) if artifact.path else ():
                if left_since(call, file.path):
                    require_within(call.rights, (ground, os.path.join(call.directory, file.path)))
                    found.append({**_kept_file(call, artifact, file, state, redactor), "failed": True})
        except Failure as refused:
            if refused.rule and str(refused) not in outcome.message:
                outcome = outcome._replace(message=f"{outcome.message}; {refused}".removeprefix("; "))
    return outcome._replace(artifacts=(*outcome.artifacts, *found)) if found else outcome


_GRAIN = 0.005
"""Seconds by which the times of files may lag behind the clock."""


def left_since(call: Call, path: str) -> bool:
    """Whether a file came or changed after the run began, going by a time that no program can set; a folder counts as
    it is."""
    try:
        found = os.lstat(os.path.join(call.directory, path))
    except (OSError, ValueError):
        return False
    return stat.S_ISDIR(found.st_mode) or found.st_ctime > call.began - _GRAIN


def files_of(artifact: Artifact, directory: str) -> list[Kept]:
    """What an artifact keeps: its path, or every file that the path fits as a pattern."""
    relative = os.path.relpath(os.path.join(directory, artifact.path), directory)
    if relative.split("/")[0] == "..":
        message = f"the artifact `{artifact.name}` cannot be kept: {artifact.path} is outside the working directory"
        raise Failure(message, "policy", rule="files.beneath")
    files = match.files(directory, artifact.path)
    if not files:
        raise Failure(f"the artifact `{artifact.name}` is missing: no file fits {artifact.path}")
    if artifact.name == artifact.path:
        return [Kept(path, path, "" if path == artifact.path else artifact.name) for path in files]
    if len(files) == 1:
        return [Kept(artifact.name, files[0])]
    return [Kept(f"{artifact.name}/{path}", path, artifact.name) for path in files]


def keep_beneath(state: str, directory: str, path: str, redactor: Redactor | None = None) -> Mapping[str, Json]:
    """Keep a file or a folder below ``directory`` in the store of ``state``; links on the way are followed as long as
    they stay inside. Raises Failure (policy) for a path that leads out or is a link, and for the state folder; OSError
    for what cannot be read."""
    if "\0" in path:
        raise Failure(f"{path!r} is not a path")
    _leave_the_state(os.path.realpath(state), os.path.realpath(os.path.join(directory, path)), path)
    folder, name = os.path.split(os.path.normpath(path))
    with Beneath(directory) as tree:
        opened = tree.open_to_read(folder or ".")
        try:
            if stat.S_ISLNK(os.stat(name, dir_fd=opened, follow_symlinks=False).st_mode):
                raise Failure(f"{path} is a link", "policy", rule="files.link")
            return ArtifactStore(state, redactor).keep_in(opened, name)
        finally:
            os.close(opened)


def _leave_the_state(state: str, path: str, said: str) -> None:
    """Raises Failure where a path is, holds or lies in the state folder: its contents change while they are kept."""
    if path == state or path.startswith(f"{state}/"):
        raise Failure(f"{said} lies in the state folder of planrunner", "policy", rule="files.state")
    if state.startswith(f"{path.rstrip('/')}/"):
        raise Failure(
            f"{said} holds the state folder of planrunner: name what is to be kept in it", "policy", rule="files.state"
        )


def check_file_rights(call: Call, outcome: Outcome, top: str) -> Outcome:
    """The outcome, refused where one of the files that the task gives or keeps may not be read by its policy. The run
    works in ``top``."""
    if outcome.failure:
        return outcome
    try:
        ground = ground_of(top, call.directory)
        for touch in taken(call.task):
            for path in match.files(call.directory, touch.text):
                require_within(call.rights, (ground, os.path.join(call.directory, path)))
    except Failure as failure:
        return outcome._replace(failure=failure.failure, message=str(failure), outputs={}, rule=failure.rule)
    return outcome
