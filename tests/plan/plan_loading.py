"""What the tests of loading share: the corpus, a small set of capabilities, trees made from data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from planrunner.plan.load import Loaded, load
from planrunner.plan.model import Capability, Field
from planrunner.source import Source, notation_of
from planrunner.syntax.tree import Mapping, Node, Scalar, Sequence

ROOT = Path(__file__).parents[2]
CORPUS = ROOT / "tests" / "corpus"
SEED = ROOT.parent / "shared" / "seeds" / "001_3fa7c38090d4303f.txt"


RESEARCH = ("research.search", "research.fetch", "research.rank", "llm.complete")
"""What the commands of the seeds call."""


class Known:
    """Capabilities by name, all of them open for any input."""

    def __init__(self, *names: str) -> None:
        self._names = names or ("shell", "noop", "fail", "sleep", "files.read", "files.write")

    def find(self, name: str) -> Capability | None:
        if name in RESEARCH:
            return Capability(name, inputs=(Field("material"),), open_inputs=True, open_outputs=True)
        if name not in self._names:
            return None
        return Capability(name, takes_run=name == "shell", open_inputs=True, open_outputs=True, instant=name == "noop")

    def names(self) -> tuple[str, ...]:
        return self._names


def loaded(text: str, name: str = "x.yaml") -> Loaded:
    return load(Source(text, name, notation_of(name)), Known())


def errors(result: Loaded) -> list[str]:
    return [f"{found.code} {found.message}" for found in result.findings if found.severity == "error"]


def task_of(body: str, head: str = "") -> Any:
    """The first task of a plan that has no errors; ``body`` holds the keys of the task, a line each."""
    lines = "".join(f"    {line}\n" for line in body.strip("\n").split("\n"))
    result = loaded(f"plan: p\n{head}tasks:\n  - id: a\n{lines}  - {{id: b, uses: noop}}\n")
    assert result.plan is not None, errors(result)
    return result.plan.tasks[0]


def tree_of(data: Any) -> Node:
    """The node tree of plain data, without places."""
    if isinstance(data, dict):
        return Mapping([(Scalar(key, 0, 0, key), tree_of(value)) for key, value in data.items()], 0, 0)
    if isinstance(data, list):
        return Sequence([tree_of(item) for item in data], 0, 0)
    return Scalar(data, 0, 0, str(data))


def corpus(folder: str) -> list[Path]:
    """The plans of a folder of the corpus, without their goldens."""
    return sorted(path for path in (CORPUS / folder).iterdir() if path.suffix in (".yaml", ".json", ".plan"))
