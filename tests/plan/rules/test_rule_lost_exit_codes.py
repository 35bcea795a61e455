"""PLAN220 and PLAN221: commands whose failure the shell passes over, and scripts that another program runs."""

from __future__ import annotations

import json

import pytest
from rows import rows

from planrunner.plan.load import load
from planrunner.plugins.registry import Registry
from planrunner.source import Source


def codes(script: str, shell: str = "") -> list[str]:
    task = {"id": "a", "run": script, "timeout": "1m", **({"shell": shell} if shell else {})}
    source = Source(json.dumps({"plan": "p", "tasks": [task]}), "p.json", "json")
    found = load(source, Registry()).findings
    return [each.code for each in found if each.code in ("PLAN220", "PLAN221")]


@rows(
    "script",
    [
        "no_such_dump shop | gzip > shop.sql.gz",
        "python3 -m pytest | tee test.log",
        "cat nowhere.txt | wc -l",
        "make\nTOKEN=x curl -sf https://example.org | jq .",
        "echo x; git log --oneline | head -3",
        "x=$(git log | sed -n 2p)",
        "echo a | curl -T - https://example.org | cat",
        "export V=$(cat nowhere)",
        'export V="$(curl -sf https://example.org)"',
        "f() { local v=$(cat nowhere); }; f",
    ],
)
def test_a_command_whose_failure_is_passed_over_is_found(script: str) -> None:
    assert codes(script) == ["PLAN220"]


@rows(
    "script",
    [
        "echo x | tr a b | wc -c",
        "printf '%s' \"$S\" | base64",
        "cat <<END | sort\nx\nEND",
        "cat | sort",
        "ls -1 | wc -l",
        "if curl -sf https://example.org | grep -q ok; then echo yes; fi",
        "curl -sf https://example.org | grep -c x || echo none",
        "{ cat *.md 2>/dev/null || true; } | wc -l",
        "for i in 1 2; do echo $i; done | sort",
        "a || b",
        "echo 'a | b' \"c | d\" # e | f",
        "case x in a|b) echo c;; esac",
        "echo x >| file",
        "V=$(cat nowhere); export V",
        "export V=$(date)",
        "export V=1",
    ],
)
def test_what_cannot_fail_unseen_has_no_finding(script: str) -> None:
    assert codes(script) == []


@pytest.mark.parametrize(("shell", "count"), [("bash", 0), ("zsh", 0), ("ksh -x", 0), ("dash", 1), ("/bin/sh", 1)])
def test_a_pipe_is_found_where_the_shell_has_no_pipefail(shell: str, count: int) -> None:
    assert len(codes("make | tee log", shell)) == count


@rows(
    ("line", "shell", "count"),
    [
        ("#!/usr/bin/env python3", "", 1),
        ("#!/bin/bash", "", 1),
        ("#!/usr/bin/perl -w", "bash", 1),
        ("#! /usr/bin/env -S python3 -u", "", 1),
        ("#!/bin/bash", "bash", 0),
        ("#!/bin/sh", "", 0),
        ("#!/bin/sh -e", "bash", 0),
        ("#!/usr/bin/env python3", "python3.11", 0),
        ("#!/usr/bin/env python3", "/usr/bin/env python3", 0),
        ("# /bin/bash", "", 0),
    ],
)
def test_a_first_line_that_names_another_interpreter_is_an_error(line: str, shell: str, count: int) -> None:
    assert codes(f"{line}\nfor\n", shell) == ["PLAN221"] * count
