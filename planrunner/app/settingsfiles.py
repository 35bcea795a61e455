"""What is wrong with the files that hold the settings of a project, whoever asks."""

from __future__ import annotations

import os
from collections.abc import Iterator

from planrunner.app.authoring import Checked, Choice, chosen, registry
from planrunner.app.unfitting import unfitting
from planrunner.diagnostics import Diagnostic, arrange
from planrunner.journal.workspace import find_project
from planrunner.plan.nearest import nearest
from planrunner.safety.consistency import entries
from planrunner.safety.project import FILE, check_files
from planrunner.syntax.tree import Mapping as MappingNode
from planrunner.syntax.tree import Node, Scalar


def is_settings(path: str) -> bool:
    """Whether a path is that of the settings of a project."""
    return os.path.basename(path) == FILE and os.path.isfile(path)


def check_settings(path: str, choice: Choice) -> tuple[Checked, ...]:
    """The findings about each file of the settings of the project that a file belongs to (the working directory where
    it is empty). Raises as ``check_files``."""
    project = find_project(path)
    results = []
    for found in check_files(project):
        findings = arrange((*found.findings, *unfitting(found.tree, project), *_unknown_tools(found.tree, project)))
        results.append(Checked(found.source, chosen(findings, choice), found.source.text))
    return tuple(results)


def _unknown_tools(tree: Node | None, project: str) -> Iterator[Diagnostic]:
    """Tools that call what is not installed; plugins are looked up for those alone that are not built in."""
    called = [
        (tool, uses)
        for tool, body in entries(tree.get("tools") if isinstance(tree, MappingNode) else None)
        if isinstance(uses := body.get("uses") if isinstance(body, MappingNode) else None, Scalar)
    ]
    known = registry(project, keeps=False) if called else None
    for tool, uses in called:
        if known is not None and isinstance(uses.value, str) and known.find(uses.value) is None:
            close = nearest(uses.value, known.names())
            what = f"the tool `{tool}` calls `{uses.value}`, which no installed capability is named"
            yield Diagnostic("PLAN841", what + (f", did you mean `{close}`?" if close else ""), uses.span)
