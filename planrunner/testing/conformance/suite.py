"""The checks of a list of cases, each a test of its own."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import NamedTuple
from unittest import SkipTest

from planrunner.plugins.claims import mutates
from planrunner.testing.bench import Bench
from planrunner.testing.conformance.behaviour import (
    _check_cancel,
    _check_outcome,
    _check_replay,
    _check_secrets,
    _check_timeout,
    _check_twice,
)
from planrunner.testing.conformance.cases import ASPECTS, Case, arranged
from planrunner.testing.conformance.declared import _check_docs, _check_schema
from planrunner.testing.conformance.inverse import _check_preview, _check_undo
from planrunner.testing.conformance.outside import _check_effects
from planrunner.testing.conformance.trial import Trial

_CHECKS: dict[str, Callable[[Trial], None]] = {
    "schema": _check_schema,
    "docs": _check_docs,
    "outcome": _check_outcome,
    "cancel": _check_cancel,
    "timeout": _check_timeout,
    "effects": _check_effects,
    "replay": _check_replay,
    "twice": _check_twice,
    "preview": _check_preview,
    "undo": _check_undo,
    "secrets": _check_secrets,
}
_STOPPED = ("cancel", "timeout")
_OF_SUCCESS = ("twice", "undo")


class Check(NamedTuple):
    """One check of one case: call it with an empty folder. It raises AssertionError with what does not hold, and
    ``unittest.SkipTest``, which pytest knows, where the case cannot be tried here."""

    case: Case
    aspect: str

    def __str__(self) -> str:
        return f"{self.case.title}-{self.aspect}"

    def __call__(self, folder: Path) -> None:
        case = self.case
        if missing := case.lacks():
            raise SkipTest(f"{missing} is not there")
        directory = folder / "work"
        directory.mkdir()
        if self.aspect == "docs":
            case = case._replace(setup=None)
        with arranged(case, directory) as ready, Bench(case.capability, str(directory), ready.settings) as bench:
            if self._concerns(bench):
                _CHECKS[self.aspect](Trial(case, ready, bench, str(folder)))

    def _concerns(self, bench: Bench) -> bool:
        """Whether there is anything to find out: what looks is not undone, what is instant cannot be stopped."""
        if self.aspect in ("preview", "undo"):
            return mutates(bench.description)
        return not (self.aspect in _STOPPED and bench.declaration.instant)


def checks(cases: Iterable[Case]) -> list[Check]:
    """Every check that concerns a case, by case and then in the order of ``ASPECTS``."""
    found: list[Check] = []
    documented: set[object] = set()
    for case in cases:
        if unknown := sorted(set(case.exempt) - set(ASPECTS)):
            raise ValueError(f"{case.title} is exempt from `{unknown[0]}`, which is no check: {', '.join(ASPECTS)}")
        found += [Check(case, aspect) for aspect in ASPECTS if _applies(case, aspect, documented)]
        documented.add(case.capability)
    return found


def _applies(case: Case, aspect: str, documented: set[object]) -> bool:
    """Whether a check is one of a case; the words of a capability are read with its first case alone."""
    if aspect in case.exempt or (aspect == "docs" and case.capability in documented):
        return False
    if case.waits:
        return aspect in (*_STOPPED, "docs")
    if aspect == "timeout" or (aspect in _OF_SUCCESS and case.fails):
        return False
    return aspect != "secrets" or bool(case.secrets)


def load_cases(path: str) -> list[Case]:
    """The list ``CASES`` of a file of Python. Raises AttributeError where it has none."""
    name = f"planrunner_cases_{os.path.basename(path).removesuffix('.py')}"
    spec = spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None, f"{path} is no file of Python"
    module = module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    found: list[Case] = module.CASES
    return found
