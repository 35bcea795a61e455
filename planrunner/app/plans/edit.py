"""Edit plan files from elsewhere than the file system: read one with its digest, look at a text that is not saved, save
it only over the text that was read, and only below the project.

Paths are those below the directory of the project, with ``/``; the project is that of the caller's workspace.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Sequence
from hashlib import sha256
from typing import Any

from planrunner.app.people.admission import marked_file, read_uncached, review, runs_unasked, why_foreign
from planrunner.app.plans.lint import Choice as Rules
from planrunner.app.plans.lint import convert_text, format_text, mend_file
from planrunner.app.plans.listing import LARGE, ground_of, linked_paths, loaded
from planrunner.app.plans.places import ENDINGS, FOLDER, is_kept, new_fault, require_links, require_plan_text
from planrunner.app.plans.preview import Choice, missing_of, preview_object, previewed
from planrunner.app.plans.suggestions import Names, Suggestions, suggestions
from planrunner.caller import workspace
from planrunner.diagnostics import Diagnostic
from planrunner.errors import Denied, NotFound, PlanrunnerError, RecordMismatch, StorageFailed, UsageError
from planrunner.failures import Failure
from planrunner.fileio import locked
from planrunner.files.beneath import Beneath, open_inside
from planrunner.files.staged import write_new
from planrunner.plan.files import File, decode
from planrunner.plan.fixes import apply
from planrunner.plan.model import Plan
from planrunner.plugins.registry import Registry
from planrunner.records import Struct
from planrunner.safety.credentials import read_credentials
from planrunner.safety.project import FILE, settings_files
from planrunner.safety.roster import roster_or_none
from planrunner.safety.trust import DRAFTED, holds_marked, mark, trusted, untrust
from planrunner.source import MAX_TEXT, Notation, Source, notation_of
from planrunner.views.findings import findings_data

Json = Any

LARGEST = 1 << 20
"""Characters of a text that is looked at while it is written; larger plans are checked with ``planrunner lint``."""
_NONE = Rules()


class PlanText(Struct):
    """The text of a plan file. ``digest`` is the SHA-256 of its bytes, empty for a file that does not exist yet;
    ``text`` has line feeds alone, whatever the file has."""

    path: str
    text: str
    digest: str

    @property
    def notation(self) -> Notation:
        return notation_of(self.path)


class Look(Struct):
    """A text as lint sees it. ``source`` is named by the path below the project; ``plan`` is None where an error keeps
    it from running."""

    source: Source
    findings: tuple[Diagnostic, ...]
    plan: Plan | None
    sketch: Plan | None = None
    """The plan as far as it can be told, for a drawing."""


class Envelope(Struct):
    """What a run of a text would do: the ``document`` of ``preview --json`` and what is ``missing`` here; or the
    ``problem`` that keeps it from being told."""

    document: dict[str, Json] | None = None
    missing: tuple[dict[str, Json], ...] = ()
    problem: str = ""


def place_of(path: str) -> str:
    """The absolute path of a plan of the project, or of one that may be written there. Raises UsageError for a path
    that no plan may have, and Denied for one that leads out of the project, by a link too, and for what no plan may be
    written to. Raises NotFound for a file that is not a plan of the project, and for where it keeps none."""
    name = os.path.basename(path)
    if not name.endswith(ENDINGS) or name.startswith(".") or name == FILE:
        raise UsageError(f"`{path}` is not named like a plan", f"plans end in {', '.join(ENDINGS)}")
    try:
        with _opened() as tree:
            parts = tree.writable(path)
    except Failure as failure:
        raise Denied(str(failure)) from None
    place, home = os.path.join(workspace().root, *parts), os.path.realpath(workspace().root)
    if not os.path.realpath(place).startswith(f"{home.rstrip('/')}/"):
        raise Denied(f"`{path}` leads out of the project by a link")
    below = "/".join(parts)
    if not is_kept(below):
        if why := new_fault(below):
            if parts[0] == FOLDER and not os.path.lexists(place):
                raise UsageError(f"`{path}` is not a path for a new plan", why)
            raise NotFound(f"the project has no plan `{path}`", why)
        if os.path.lexists(place):
            raise NotFound(f"the project has no plan `{path}`: the file there is not one")
    return place


def _opened() -> Beneath:
    """The directory of the project, in which the state directory and the files of the settings may not be written."""
    root = workspace().root
    return Beneath(root, workspace().state, ruling=lambda: [os.path.join(root, name) for name in settings_files(root)])


def read_text(path: str) -> PlanText:
    """A plan file of the project. Raises NotFound without it, UsageError for bytes that are not UTF-8 and for a file
    that is larger than a plan may be, and as ``place_of``."""
    place_of(path)
    data = _content(path)
    if data is None:
        raise NotFound(f"the project has no plan `{path}`")
    if len(data) > MAX_TEXT:
        raise UsageError(f"`{path}` has more than {MAX_TEXT:,} bytes, the most that a plan may have")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        raise UsageError(f"`{path}` is not UTF-8 text") from None
    return PlanText(path, plain(text), sha256(data).hexdigest())


def is_there(path: str) -> bool:
    """Whether the project has a file of that path. Raises as ``place_of``."""
    return os.path.lexists(place_of(path))


def _content(path: str) -> bytes | None:
    """The bytes of a file below the project, None without it. Raises Denied for one that a link leads out to."""
    if not os.path.lexists(os.path.join(workspace().root, path)):
        return None
    try:
        with open_inside(workspace().root, path) as file:
            return file.read(MAX_TEXT + 1)
    except Failure as failure:
        raise Denied(str(failure)) from None


def plain(text: str) -> str:
    """A text with line feeds alone and without a byte order mark."""
    return text.removeprefix("\N{ZERO WIDTH NO-BREAK SPACE}").replace("\r\n", "\n").replace("\r", "\n")


def look(path: str, text: str) -> Look:
    """What lint says of a text that would stand in a file. Raises UsageError for more than ``LARGEST`` characters, and
    as ``place_of``."""
    seen = _look(path, text, False)
    assert seen is not None
    return seen


def known_look(path: str, text: str) -> Look | None:
    """The same for a large text only if it was looked at before: else None. Raises as ``look``."""
    return _look(path, text, len(text) > LARGE)


def _look(path: str, text: str, known: bool) -> Look | None:
    place = place_of(path)
    _require_small(text)
    found = loaded(ground_of(workspace().root), place, text.encode("utf-8", "surrogatepass"), known)
    if found is None:
        return None
    require_links(path, found.files)
    return Look(Source(text, path, notation_of(path)), found.findings, found.plan, found.sketch)


def _require_small(text: str) -> None:
    if len(text) > LARGEST:
        raise UsageError(f"the text has more than {LARGEST:,} characters", "edit it as a file, and check it with lint")


def look_object(seen: Look) -> dict[str, Json]:
    """The findings about a text, as ``lint --json`` prints them."""
    return findings_data([(seen.source, seen.findings)])


def envelope_of(path: str, text: str, params: Sequence[tuple[str, Json]] = ()) -> Envelope:
    """What a run of a text without errors would do. Raises as ``place_of``."""
    place = place_of(path)
    try:
        seen = previewed(place, Choice(tuple(params)), text.encode("utf-8", "surrogatepass"))
        return Envelope(preview_object(path, seen), tuple(missing_of(place, seen)))
    except PlanrunnerError as error:
        return Envelope(problem=error.message.replace(place, path))


def complete(path: str, text: str, offset: int) -> Suggestions:
    """What may be written at a place of a text. Raises as ``look`` does for its size and path."""
    place, project = place_of(path), workspace().root
    _require_small(text)
    roster = roster_or_none(project)
    names = Names(Registry(project=project, keeps=False))
    if roster is not None:
        names = names._replace(agents=tuple(roster.agents), models=roster.models, secrets=_secrets(project))
    return suggestions(Source(text, place, notation_of(path)), offset, names)


def _secrets(project: str) -> tuple[str, ...]:
    try:
        return tuple(read_credentials(project))
    except PlanrunnerError:  # the check of the settings says why
        return ()


def formatted(path: str, text: str) -> str:
    """The text in canonical form, comments kept. Raises PlanInvalid where it does not parse."""
    place_of(path)
    return format_text(_file(path, text))


def converted(path: str, text: str, notation: Notation) -> str:
    """The text in another notation. Raises PlanInvalid where it does not parse."""
    place_of(path)
    return convert_text(_file(path, text), notation)


def _file(path: str, text: str) -> File:
    return decode(text.encode("utf-8", "surrogatepass"), path)


def fixed(path: str, text: str, which: str) -> str:
    """The text with fixes applied: ``safe`` ones, ``all``, or that of the finding with the fingerprint ``which``.
    Raises NotFound where no finding with a fix has it."""
    if which in ("safe", "all"):
        place = place_of(path)
        found = Registry(project=workspace().root, keeps=False)
        return mend_file(_file(place, text), _NONE, found, unsafe=which == "all").source.text
    seen = look(path, text)
    for finding, row in zip(seen.findings, look_object(seen)["findings"], strict=False):
        if row["fingerprint"] == which and finding.fix is not None:
            return apply(seen.source, [finding], unsafe=True).text
    raise NotFound("this finding is gone, or has no fix", "check the text again")


# Saving


def runs_as_it_is(path: str) -> bool:
    """Whether there is a plan at a path that runs unasked: no text from outside is in it, or a person trusts it, or a
    plan that links to it; or that a person changed. What cannot trust does not write over it: it would stop what runs
    by a schedule. Raises as ``place_of``."""
    place = place_of(path)
    if not os.path.lexists(place):
        return False
    return not holds_marked(place) or runs_unasked(place) or os.path.relpath(place, workspace().root) in linked_paths()


def why_waits(path: str) -> str:
    """Why a plan starts nothing until a person trusts it, in words; empty for one that runs unasked. Raises as
    ``place_of``, and as ``review``."""
    place = place_of(path)
    ready = read_uncached(place, Registry(project=workspace().root))
    if why_foreign(place, ready) or not marked_file(place, ready)[0]:
        return ""
    found = review(place, ready=ready)
    waits = found.summary["origin"] == "drafted" and found.summary["trusted"] != "trusted"
    return str(found.summary["why"]).replace(f"{workspace().root}/", "") if waits else ""


def require_may_replace(path: str) -> None:
    """Raises Denied where whatever cannot trust a plan would write over one that runs as it is."""
    if runs_as_it_is(path):
        hint = "save the text under another name, which waits for trust, or with a token that has the scope `admin`"
        raise Denied(f"`{path}` runs as it is, and changing it needs the scope `admin`", hint, "trust")


def save_text(path: str, text: str, digest: str, outside: str = "", trusts: bool = True) -> PlanText:
    """Write a plan file of the project, durably and as a whole; gives it with its new digest.

    ``digest`` is that of the text that was read, empty for a file that must not exist yet. ``outside`` says where the
    text came from if the plan is to run only after a person has trusted it, ``trusts`` whether the one who saves may
    trust plans. Raises RecordMismatch where the file is another one by now, StorageFailed where it cannot be written,
    UsageError for a text that is too large or not a plan, and as ``place_of`` and ``require_may_replace``.
    """
    place = place_of(path)
    if len(text.encode("utf-8", "surrogatepass")) > MAX_TEXT:
        raise UsageError(f"the text has more than {MAX_TEXT:,} bytes, the most that a plan may have")
    try:
        with _opened() as tree, tree.parent(tree.writable(path), make=True) as (folder, name), locked(folder):
            before, mode = _present(folder, name)
            if _digest(before) != digest:
                raise RecordMismatch(*_mismatch(path, before, digest))
            require_plan_text(os.path.relpath(place, workspace().root), text, is_new=before is None)
            if not trusts:
                require_may_replace(path)
            data = _bytes(text, before)
            if outside:
                mark(place, data, outside)
            _replace(folder, name, data, mode)
            if trusts and not outside and (known := trusted(place, "draft")) and known.why != DRAFTED:
                untrust(place, "draft")  # who saves it vouches for the text
    except Failure as failure:
        raise Denied(str(failure)) from None
    except OSError as error:
        raise StorageFailed(f"`{path}` cannot be written: {error.strerror}") from None
    return PlanText(path, plain(text), sha256(data).hexdigest())


def _mismatch(path: str, before: bytes | None, digest: str) -> tuple[str, str]:
    if before is None:
        return f"`{path}` was removed since it was read", "save it as a plan of its own, or leave the editor"
    if not digest:
        return f"`{path}` exists already", "choose another name, or edit that plan"
    return f"`{path}` has changed since it was read", "look at what differs, then save again"


def _present(folder: int, name: str) -> tuple[bytes | None, int]:
    """The bytes and the mode of a file in an open folder; None without it. Raises Failure for what is not a file."""
    try:
        handle = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except FileNotFoundError:
        return None, 0o644
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise Failure(f"{name} is a link; edit the file that it leads to") from None
        raise
    with open(handle, "rb") as file:
        about = os.fstat(handle)
        if not stat.S_ISREG(about.st_mode):
            raise Failure(f"{name} is not a regular file")
        return file.read(MAX_TEXT + 1), stat.S_IMODE(about.st_mode)


def _digest(data: bytes | None) -> str:
    return "" if data is None else sha256(data).hexdigest()


def _bytes(text: str, before: bytes | None) -> bytes:
    """The text as its file has it: with the byte order mark and the line ends of what it replaces."""
    lines = plain(text)
    old = before or b""
    if b"\r\n" in old:
        lines = lines.replace("\n", "\r\n")
    return old[:3] * old.startswith(b"\xef\xbb\xbf") + lines.encode("utf-8", "surrogatepass")


def _replace(folder: int, name: str, data: bytes, mode: int) -> None:
    staged = f".{name}.{os.urandom(6).hex()}.planrunner"
    try:
        write_new(folder, staged, mode, [data])
        os.rename(staged, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(staged, dir_fd=folder)
        raise
    os.fsync(folder)
