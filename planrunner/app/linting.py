"""Lint many files at once, and what belongs to changing them: diffs and writing back."""

from __future__ import annotations

import os
from collections.abc import Iterable
from difflib import unified_diff

from planrunner.app.authoring import Checked, Choice, check_file, mend_file, registry
from planrunner.app.planfile import read_regular
from planrunner.app.planfiles import find_plans
from planrunner.app.settingsfiles import check_settings, is_settings
from planrunner.errors import UsageError
from planrunner.journal.workspace import find_project
from planrunner.plan.files import File, decode
from planrunner.plan.load import Capabilities


def lint_paths(
    paths: Iterable[str], choice: Choice, mend: str | None = None, stdin: tuple[str, bytes] = ("<stdin>", b"")
) -> list[Checked]:
    """Check every plan below ``paths``, in order, and then the files of their projects where those have findings. For
    the settings of a project by their name each of their files is a result; nothing mends them.
    ``mend`` is None, ``safe`` or ``all``: then the result holds the mended text, which the caller writes. ``stdin``
    is the name and content that stand for the path ``-``.

    Raises NotFound where there is no plan, and UsageError for settings that cannot be read.
    """
    registries: dict[str, Capabilities] = {}
    results: list[Checked] = []
    projects: dict[str, tuple[Checked, ...]] = {}
    wanted = list(paths)
    named = [path for path in wanted if is_settings(path)]
    plans = [path for path in wanted if path not in named]
    asked = {part.source.name: part for path in named for part in check_settings(path, choice)}
    for file in read_files(plans, stdin) if plans or not named else ():
        folder = os.path.dirname(file.source.name)
        if folder not in projects:
            projects[folder] = check_settings(file.source.name, choice)
            registries[folder] = _registry_of(find_project(file.source.name), registries)
        capabilities = registries[folder]
        if mend:
            results.append(mend_file(file, choice, capabilities, unsafe=mend == "all"))
        else:
            results.append(check_file(file, choice, capabilities))
    unsound = {part.source.name: part for parts in projects.values() for part in parts if part.findings}
    return [*results, *{**asked, **unsound}.values()]


def _registry_of(project: str, known: dict[str, Capabilities]) -> Capabilities:
    """What can be used in a project; folders of one project share what was loaded."""
    if project not in known:
        known[project] = registry(project, keeps=False)
    return known[project]


def read_files(paths: Iterable[str], stdin: tuple[str, bytes]) -> list[File]:
    """The plans below ``paths``, ``-`` being standard input. Raises NotFound."""
    wanted = list(paths)
    named = [path for path in wanted if path != "-"]
    files = [decode(stdin[1], stdin[0])] if "-" in wanted else []
    if named or not wanted:
        files += [read_regular(path) for path in find_plans(named)]
    return files


def diff_text(name: str, before: str, after: str) -> str:
    """A unified diff, empty where nothing changes."""
    lines = unified_diff(before.splitlines(keepends=True), after.splitlines(keepends=True), name, name)
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)


def write_text(path: str, text: str) -> None:
    """Replace a file as a whole, keeping its mode: a crash leaves the old text or the new one. Raises UsageError."""
    target = os.path.realpath(path)
    scratch = f"{target}.{os.getpid()}.tmp"
    try:
        mode = os.stat(target).st_mode & 0o7777
        with open(scratch, "x", encoding="utf-8", newline="") as file:
            file.write(text)
        os.chmod(scratch, mode)
        os.replace(scratch, target)
    except OSError as error:
        raise UsageError(f"`{path}` cannot be written: {error.strerror}") from error
    finally:
        if os.path.exists(scratch):
            os.unlink(scratch)
