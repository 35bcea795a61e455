"""The deployment that runs belong to: facts such as image and commit, which the operator gives to the process."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

from planrunner.errors import UsageError

VARIABLE = "PLANRUNNER_DEPLOYMENT"
_NAME = r"[a-z][a-z0-9_.-]{0,39}"
_MOST, _LONGEST = 16, 300


def deployment(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """What the variable PLANRUNNER_DEPLOYMENT says, by name; empty where it is not set. Raises UsageError for a text
    that is not made of ``name=value`` and spaces."""
    facts: dict[str, str] = {}
    for part in environment.get(VARIABLE, "").split():
        name, sign, value = part.partition("=")
        if not sign or not re.fullmatch(_NAME, name) or name in facts or not value or len(value) > _LONGEST:
            raise UsageError(f"{VARIABLE} has `{part[:60]}`, expected `name=value` with a name of its own", _HINT)
        facts[name] = value
    if len(facts) > _MOST:
        raise UsageError(f"{VARIABLE} has {len(facts)} facts, and {_MOST} are allowed", _HINT)
    return facts


_HINT = f"write for example {VARIABLE}='name=production image=registry.example/app:1.4 commit=4f2a91c'"


def facts_text(facts: Mapping[str, str]) -> str:
    """The facts of a deployment in one line."""
    return " ".join(f"{name}={value}" for name, value in facts.items())
