"""Which renderer shows the progress of a run."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from planrunner.cli.options import PROGRESS
from planrunner.cli.settings import Settings, messages, terminal
from planrunner.errors import UsageError
from planrunner.views.progress.github import GithubProgress
from planrunner.views.progress.jsonl import JsonLinesProgress
from planrunner.views.progress.plain import PlainProgress, QuietProgress

if TYPE_CHECKING:
    from planrunner.app.execute import Watch


def watch(given: Settings, mode: str, output: str | None = None) -> Watch:
    """The renderer for a progress mode; only that one is imported. JSON lines are data and go to standard output.
    ``output`` is how the output of tasks is shown; None leaves it to the renderer."""
    mode = _mode(given, mode)
    if output not in (None, "none") and mode in ("jsonl", "quiet"):
        raise UsageError(
            f"--output {output} has no effect with --progress {mode}", "it works with tree, plain and github"
        )
    if mode == "tree":
        from planrunner.views.progress.tree import TreeProgress

        return TreeProgress(messages(given), output or "none")
    if mode == "jsonl":
        return JsonLinesProgress(terminal(sys.stdout, given))
    if mode == "github":
        return GithubProgress(messages(given), output or "grouped")
    if mode == "quiet":
        return QuietProgress(messages(given))
    return PlainProgress(messages(given), output=output or "grouped")


def _mode(given: Settings, mode: str) -> str:
    """``auto`` is PLANRUNNER_PROGRESS, else groups in GitHub Actions, a tree where the cursor can be moved, and lines
    elsewhere."""
    if mode == "auto":
        mode = os.environ.get("PLANRUNNER_PROGRESS") or "auto"
        if mode not in PROGRESS:
            raise UsageError(f"PLANRUNNER_PROGRESS is `{mode}`", f"it may be {', '.join(PROGRESS)}")
    if mode == "auto":
        in_github = os.environ.get("GITHUB_ACTIONS") == "true"
        mode = "github" if in_github else "tree" if messages(given).live else "plain"
    return mode
