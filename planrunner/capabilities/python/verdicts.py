"""What a policy says about a rule of the scan, and what Bandit says about a text. Loaded by ``child.py`` in whatever
Python the project has, and so without anything of planrunner."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from typing import Any

from planrunner.files.match import name_fits

ORDER = {"allow": 0, "ask": 1, "deny": 2}

BY_SEVERITY = {"HIGH": "ask", "MEDIUM": "allow", "LOW": "allow"}
"""What holds for a finding of Bandit where no policy names its test."""

PATIENCE = 60.0
"""Seconds that Bandit may take."""

OPTIONS = ("-f", "json", "-q", "--ignore-nosec", "-")
"""How Bandit is asked about what comes on its standard input; no comment in the text silences it."""


def verdict(rule: str, usual: str, levels: Any) -> tuple[str, str]:
    """``allow``, ``ask`` or ``deny``, and which level says so (empty: none of them, it is ``usual``).

    ``levels`` are triples of a name, the section ``python`` of its policy, and whether it is the operator's: only such
    a one may let pass what is usually asked about or denied. Of what several levels say the strictest counts.
    """
    said = [(word, name, own) for name, section, own in levels if (word := _said(rule, section))]
    operators = [(word, name) for word, name, own in said if own] or [(usual, "")]
    others = [(word, name) for word, name, own in said if not own]
    return max((*operators, *others), key=lambda verdict: ORDER[verdict[0]])


def _said(rule: str, section: Any) -> str:
    if not isinstance(section, dict):
        return ""
    for word in ("deny", "ask", "allow"):
        entries = section.get(word) or ()
        for entry in (entries,) if isinstance(entries, str) else entries:
            if name_fits(str(entry).removeprefix("scan."), rule):
                return word
    return ""


def of_bandit(text: str, levels: Any) -> list[dict[str, Any]] | None:
    """What Bandit printed as findings: rule, verdict, by, message, line, column, snippet. None for anything but its
    report, and for one that says that it could not read the text."""
    try:
        report = json.loads(text)
        if report["errors"]:
            return None
        return [_finding(finding, levels) for finding in report["results"]]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _finding(finding: dict[str, Any], levels: Any) -> dict[str, Any]:
    rule = str(finding["test_id"])
    said, by = verdict(rule, BY_SEVERITY.get(str(finding["issue_severity"]), "ask"), levels)
    snippet = str(finding.get("code") or "").strip().splitlines()
    return {
        "rule": rule,
        "verdict": said,
        "by": by,
        "message": str(finding["issue_text"])[:500],
        "line": int(finding.get("line_number") or 0),
        "column": int(finding.get("col_offset") or 0) + 1,
        "snippet": snippet[0].strip()[:120] if snippet else "",
    }


def refusal(guard: dict[str, Any], data: bytes) -> tuple[str, str] | None:
    """Why code made during the run may not run, and by which rule; None where it may.

    It is held against what was looked at before, and shown to Bandit where there is one. Where Bandit cannot be started
    the log says so; where it gives no report the code does not run.
    """
    name = guard["name"]
    if hashlib.sha256(data).hexdigest() != guard["sha256"]:
        return f"{name} changed after it was looked at", "scan.changed"
    if not guard["bandit"]:
        return None
    try:
        asked = subprocess.run(guard["bandit"], input=data or b"\n", capture_output=True, timeout=PATIENCE, check=False)
    except subprocess.TimeoutExpired:
        return f"Bandit took more than {PATIENCE:g} s to look at {name}", "scan.bandit"
    except OSError as error:
        sys.stderr.write(f"Bandit did not look at {name}, it cannot be started here: {error.strerror}\n")
        return None
    findings = of_bandit(asked.stdout.decode("utf-8", "replace"), guard["levels"])
    if findings is None:
        last = asked.stderr.decode("utf-8", "replace").strip().splitlines()[-1:]
        return f"Bandit could not look at {name}: {''.join(last)[:300]}", "scan.bandit"
    for finding in sorted(findings, key=lambda finding: -ORDER[finding["verdict"]]):
        said = f"line {finding['line']}: {finding['message']} (Bandit {finding['rule']})"
        if finding["verdict"] == "deny":
            return f"{guard['name']} may not run: {said}", f"scan.{finding['rule']}"
        if finding["verdict"] == "ask" and not guard["seen"]:
            return f"{guard['way']}. Reason: {said}", f"scan.{finding['rule']}"
    return None
