"""What lint says about secrets, where, and what it leaves alone."""

from __future__ import annotations

import pytest

from planrunner.plan.load import load
from planrunner.plan.rules.view import Project
from planrunner.plan.shell.commands import passed_on
from planrunner.plugins.registry import Registry
from planrunner.source import Source

KNOWN = {"registry": "NPM_TOKEN", "deploy-key": "", "forge": "FORGE_TOKEN"}


def lint(tasks: str, credentials: dict[str, str] | None = KNOWN) -> list[str]:
    """The codes about secrets, each with the words it points at."""
    text = f"plan: p\ndefaults: {{timeout: 5m}}\ntasks:\n{tasks}\n"
    found = load(Source(text, "p.yaml"), Registry(), Project(credentials=credentials)).findings
    return [
        f"{each.code} {text[each.span.start : each.span.end]}"
        for each in found
        if each.code.startswith("PLAN82") or each.severity == "error"
    ]


@pytest.mark.parametrize(
    ("tasks", "found"),
    [
        ("  - {id: a, run: x, secrets: [regstry]}", ["PLAN821 regstry"]),
        ("  - {id: a, run: x, secrets: {TOKEN: {id: nothing, as: file}}}", ["PLAN821 nothing"]),
        ("  - {id: a, uses: http.get, with: {url: 'https://x.org/', auth: {credential: forge}}}", ["PLAN821 forge"]),
        ("  - {id: a, run: 'x {{ env.NPM_TOKEN }}'}", ["PLAN822 env.NPM_TOKEN"]),
        ("  - {id: a, run: x, when: env.FORGE_TOKEN == 'x'}", ["PLAN822 env.FORGE_TOKEN"]),
        ("  - {id: a, run: 'x {{ env.KEY }}', secrets: {KEY: deploy-key}}", ["PLAN822 env.KEY"]),
        ("  - {id: a, run: 'curl -H \"a: $NPM_TOKEN\" u', secrets: [registry]}", ["PLAN823 NPM_TOKEN"]),
        ("  - {id: a, run: 'curl ${DEPLOY_KEY}', secrets: [deploy-key]}", ["PLAN823 DEPLOY_KEY"]),
        ("  - {id: a, uses: noop, secrets: [registry]}", ["PLAN824 secrets"]),
        ("  - {id: a, gate: approval, ask: Go, secrets: [registry]}", ["PLAN824 secrets"]),
        (
            "  - {id: a, uses: git.fetch, secrets: {KEY: {id: registry, as: fd}}}",
            ["PLAN824 KEY"],
        ),
    ],
)
def test_what_is_wrong_is_found_at_its_place(tasks: str, found: list[str]) -> None:
    assert lint(tasks) == found


@pytest.mark.parametrize(
    "tasks",
    [
        "  - {id: a, run: x, secrets: [registry, deploy-key]}",
        "  - {id: a, run: 'printf %s \"$NPM_TOKEN\" | login --stdin', secrets: [registry]}",
        "  - {id: a, run: 'curl $KEY', secrets: {KEY: {id: registry, as: file}}}",
        "  - {id: a, run: 'x {{ env.HOME }}', secrets: [registry]}",
        "  - {id: a, uses: http.get, secrets: [forge], with: {url: 'https://x.org/', auth: {credential: forge}}}",
        "  - {id: a, uses: python.run, secrets: {KEY: {id: registry, as: fd}}, with: {code: 'pass'}}",
    ],
)
def test_what_is_right_is_let_be(tasks: str) -> None:
    assert lint(tasks) == []


def test_nobody_knows_the_credentials_where_nobody_looked() -> None:
    assert lint("  - {id: a, run: x, secrets: [anything]}", None) == []
    assert lint("  - {id: a, run: x, secrets: [anything]}", {}) == ["PLAN821 anything"]


@pytest.mark.parametrize(
    ("script", "program"),
    [
        ('curl -H "Authorization: Bearer $T" x', "curl"),
        ('if [ -n "$T" ]; then foo --key=$T; fi', "foo"),
        ("a \\\n --x ${T}", "a"),
        ("x=$(curl -u $T y)", "curl"),
        ("one; two | three ${T:-none}", "three"),
        ("echo $T", None),
        ('U="$T" prog', None),
        ('prog <<< "$T"', None),
        ("prog '$T'", None),
        ('echo "$T" | docker login --password-stdin', None),
        ("prog $TX ${TX}", None),
        ("prog > $T", None),
        ("cat <<END\nprog $T\nEND\n", None),
        ("# prog $T", None),
    ],
)
def test_arguments_of_programs_are_told_from_everything_else(script: str, program: str | None) -> None:
    assert passed_on(script, "T") == program


def test_a_secret_among_arguments_is_marked_beside_the_program_that_gets_it() -> None:
    task = '  - id: a\n    secrets: [registry]\n    run: |\n      test -n "$NPM_TOKEN"\n      curl -H "a: $NPM_TOKEN" u'
    text = f"plan: p\ndefaults: {{timeout: 5m}}\ntasks:\n{task}\n"
    found = load(Source(text, "p.yaml"), Registry(), Project(credentials=KNOWN)).findings
    (span,) = [each.span for each in found if each.code == "PLAN823"]
    assert text[: span.start].count("\n") == 7


@pytest.mark.parametrize("use", ["run: 'x {{ env.MODEL_KEY }}'", "run: x, when: env.MODEL_KEY == 'x'"])
def test_a_variable_that_settings_name_for_a_secret_is_not_read_by_a_template(use: str) -> None:
    text = f"plan: p\ndefaults: {{timeout: 5m}}\ntasks:\n  - {{id: a, {use}}}\n"
    findings = load(Source(text, "p.yaml"), Registry(), Project(hidden=("MODEL_KEY",))).findings
    (found,) = [each for each in findings if each.severity == "error"]
    assert (found.code, text[found.span.start : found.span.end]) == ("PLAN822", "env.MODEL_KEY")
    assert "env_var: MODEL_KEY" in found.help
