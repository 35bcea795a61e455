"""Checksums for planrunner: ``checksum.compute`` and ``checksum.verify``."""

from __future__ import annotations

import hashlib
import os
from difflib import unified_diff
from typing import Annotated, Any, Literal, NamedTuple

from planrunner.api import Context, Doc, Failure, Preview, capability

API = 1
"""The version of planrunner's interface that this plugin is written for."""

Algorithm = Literal["sha256", "sha512", "blake2b"]


class Computed(NamedTuple):
    digests: Annotated[dict[str, str], Doc("digest of each path, as hexadecimal digits")]
    manifest: Annotated[str, Doc("the manifest that was written, empty without one")]


class Verified(NamedTuple):
    checked: Annotated[int, Doc("how many files have the digest that the manifest says")]


def preview_compute(context: Context, paths: list[str], algorithm: Algorithm = "sha256", manifest: str = "") -> Preview:
    """Which files would be read, and how the manifest would change."""
    if not manifest:
        return Preview(f"read {len(paths)} files")
    new = _manifest({path: _digest(context, path, algorithm) for path in paths})
    old = (_text(context, manifest) or "").splitlines(keepends=True)
    lines = unified_diff(old, new.splitlines(keepends=True), f"a/{manifest}", f"b/{manifest}")
    return Preview(f"read {len(paths)} files and write {manifest}", "".join(lines))


def capture_compute(
    context: Context, paths: list[str], algorithm: Algorithm = "sha256", manifest: str = ""
) -> dict[str, Any]:
    """The manifest as it is, and as it will be: undo takes back this change and no later one."""
    if not manifest:
        return {}
    after = _manifest({path: _digest(context, path, algorithm) for path in paths})
    return {"manifest": manifest, "before": _text(context, manifest), "after": after}


def undo_compute(context: Context, before: dict[str, Any], outputs: dict[str, Any] | None) -> None:
    """Put the manifest back, or remove it where there was none."""
    if not before:
        return
    now = _text(context, before["manifest"])
    if now == before["before"]:
        return
    if now != before["after"]:
        raise Failure(f"{before['manifest']} has changed since, so it is left as it is")
    path = os.path.join(context.call.directory, before["manifest"])
    if before["before"] is None:
        os.unlink(path)
    else:
        _replace(path, before["before"], context.call.key)


@capability(
    "checksum.compute",
    effect="idempotent",
    risks=("replaces the manifest that stands there",),
    preview=preview_compute,
    capture=capture_compute,
    undo=undo_compute,
)
def compute(
    context: Context,
    paths: Annotated[list[str], Doc("files to read, relative to the working directory")],
    algorithm: Annotated[Algorithm, Doc("which digest")] = "sha256",
    manifest: Annotated[str, Doc("also write the digests to this file, as `sha256sum` does")] = "",
) -> Computed:
    """Compute the checksums of files."""
    digests = {path: _digest(context, path, algorithm) for path in paths}
    if manifest:
        _replace(os.path.join(context.call.directory, manifest), _manifest(digests), context.call.key)
    return Computed(digests, manifest)


@capability("checksum.verify", effect="read")
def verify(
    context: Context,
    manifest: Annotated[str, Doc("file with a digest and a path in each line")],
    algorithm: Annotated[Algorithm, Doc("which digest")] = "sha256",
) -> Verified:
    """Hold files against a manifest of checksums.

    Fails with the class `mismatch` and the output `wrong` when a file has another digest or is missing.
    """
    expected = _read_manifest(context, manifest)
    wrong = [path for path, digest in expected.items() if not _matches(context, path, digest, algorithm)]
    if wrong:
        raise Failure(f"{len(wrong)} of {len(expected)} files do not match: {wrong[0]}", "mismatch", {"wrong": wrong})
    return Verified(len(expected))


def _manifest(digests: dict[str, str]) -> str:
    return "".join(f"{digest}  {path}\n" for path, digest in digests.items())


def _text(context: Context, path: str) -> str | None:
    """The text of a file, None where there is none."""
    try:
        with open(os.path.join(context.call.directory, path), encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Failure(f"{path} cannot be read: {error.strerror}") from None


def _read_manifest(context: Context, manifest: str) -> dict[str, str]:
    try:
        with open(os.path.join(context.call.directory, manifest), encoding="utf-8") as file:
            rows = [line.rstrip("\n").split("  ", 1) for line in file if line.strip()]
    except OSError as error:
        raise Failure(f"{manifest} cannot be read: {error.strerror}") from None
    if any(len(row) != 2 for row in rows):
        raise Failure(f"{manifest} has a line that is not a digest, two blanks and a path")
    return {path: digest for digest, path in rows}


def _matches(context: Context, path: str, digest: str, algorithm: Algorithm) -> bool:
    try:
        return _digest(context, path, algorithm) == digest
    except Failure as failure:
        context.log.write(f"{failure}\n".encode(), "stderr")
        return False


def _digest(context: Context, path: str, algorithm: Algorithm) -> str:
    digest = hashlib.new(algorithm)
    try:
        with open(os.path.join(context.call.directory, path), "rb") as file:
            while block := file.read(1 << 20):
                if context.cancelled():
                    raise Failure(f"stopped while reading {path}")
                digest.update(block)
    except OSError as error:
        raise Failure(f"{path} cannot be read: {error.strerror}") from None
    return digest.hexdigest()


def _replace(path: str, text: str, key: str) -> None:
    """Write beside and rename, so that a half-written manifest is never read."""
    staged = f"{path}.{hashlib.sha256(key.encode()).hexdigest()[:12]}"
    try:
        with open(staged, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(staged, path)
    except OSError as error:
        raise Failure(f"{path} cannot be written: {error.strerror}") from None
