"""The artifacts that tasks declare: files from below their working directory and from nowhere else, and what is said of
those that their capabilities kept."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from glob import glob
from typing import TYPE_CHECKING, Any

from planrunner.capabilities.contract import Call, Failure
from planrunner.capabilities.files.beneath import Beneath
from planrunner.knowledge.artifacts import ArtifactStore, SecretFound
from planrunner.plan.model import Artifact

if TYPE_CHECKING:
    from planrunner.redaction import Redactor

Json = Any


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
        if not artifact.path:
            continue
        for name, path in files_of(artifact, call.directory):
            try:
                record = keep_beneath(state, call.directory, path, redactor)
            except Failure as failure:
                raise Failure(
                    f"the artifact `{name}` cannot be kept: {failure}", failure.failure, rule=failure.rule
                ) from None
            except SecretFound as refused:
                message = f"the artifact `{name}` cannot be kept: {path}: {refused.strerror}"
                raise Failure(message, "policy", rule="secret.kept") from None
            except OSError as error:
                raise Failure(f"the artifact `{name}` is missing: {path}: {error.strerror}") from None
            said = {"retention": artifact.retention} if artifact.retention else {}
            yield {"name": name, "path": path, "type": artifact.type, **said, **record}


def files_of(artifact: Artifact, directory: str) -> list[tuple[str, str]]:
    """Name and path of what an artifact keeps: its path, or every file that the path fits as a pattern."""
    relative = os.path.relpath(os.path.join(directory, artifact.path), directory)
    if relative.split("/")[0] == "..":
        message = f"the artifact `{artifact.name}` cannot be kept: {artifact.path} is outside the working directory"
        raise Failure(message, "policy", rule="files.beneath")
    files = fitting(artifact.path, directory)
    if not files:
        raise Failure(f"the artifact `{artifact.name}` is missing: no file fits {artifact.path}")
    if files == [artifact.path]:
        return [(artifact.name, artifact.path)]
    return [(f"{artifact.name}/{path}", path) for path in files]


def fitting(path: str, directory: str) -> list[str]:
    """The files that a path fits as a pattern; itself where it is none, or something of that very name is there."""
    if not any(sign in path for sign in "*?[") or os.path.lexists(os.path.join(directory, path)):
        return [path]
    found = sorted(glob(path, root_dir=directory, recursive=True))
    return [each for each in found if os.path.isfile(os.path.join(directory, each))]


def keep_beneath(state: str, directory: str, path: str, redactor: Redactor | None = None) -> Mapping[str, Json]:
    """Keep a file or a folder below ``directory`` in the store of ``state``; links on the way are followed as long as
    they stay inside. Raises Failure (policy) for a path that leads out or is a link, and for the state folder; OSError
    for what cannot be read."""
    if "\0" in path:
        raise Failure(f"{path!r} is no path")
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
