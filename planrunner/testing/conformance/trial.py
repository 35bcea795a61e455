"""One case being tried: its world, the bench it is called on, and what is looked at."""

from __future__ import annotations

from typing import Any, NamedTuple

from planrunner.machine.events import Outcome
from planrunner.testing import bench as benches
from planrunner.testing.bench import Asked, Bench
from planrunner.testing.conformance.cases import Case, Ready
from planrunner.testing.conformance.trees import Tree, difference, tree


class World(NamedTuple):
    """What a call may change: the files of the directory, and what the case looks at beside them."""

    files: Tree
    outside: Any


class Trial(NamedTuple):
    """``folder`` is for what the suite itself leaves behind; the working directory is in the bench."""

    case: Case
    ready: Ready
    bench: Bench
    folder: str

    def asked(self, timeout: float | None = None) -> Asked:
        """The call that the case makes."""
        ready = self.ready
        return Asked(ready.inputs, ready.env, ready.run, timeout)

    def to_its_end(self) -> Asked:
        """The call that the case makes, with time to end by itself."""
        return self.asked(benches.LOOK)

    def world(self) -> World:
        """How everything stands now."""
        outside = self.ready.look() if self.ready.look is not None else None
        return World(tree(self.bench.directory, self.case.ignore), outside)

    def changed(self, before: World) -> str:
        """What is no longer as it was, in words."""
        now = self.world()
        words = [difference(before.files, now.files)]
        if now.outside != before.outside:
            words.append(f"outside, {before.outside!r} became {now.outside!r}")
        return ", ".join(filter(None, words))

    def lasting(self, outcome: Outcome) -> dict[str, Any]:
        """The outputs that are to be the same each time."""
        return {name: value for name, value in outcome.outputs.items() if name not in self.case.volatile}

    def as_said(self, outcome: Outcome) -> str:
        """Why the outcome is not the one that the case names; empty where it is."""
        if outcome.failure == self.case.fails:
            return ""
        wanted = f"fail as `{self.case.fails}`" if self.case.fails else "go well"
        came = f"failed as `{outcome.failure}`: {outcome.message}" if outcome.failure else "went well"
        return f"the call was to {wanted} and {came}\n{outcome.stderr}".rstrip()
