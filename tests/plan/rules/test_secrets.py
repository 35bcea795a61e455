"""What lint says about secrets, where, and what it leaves alone."""

from __future__ import annotations

import pytest
from rows import rows

from planrunner.plan.load import load
from planrunner.plan.rules.view import Project
from planrunner.plan.shell.commands import passed_on
from planrunner.plugins.registry import Registry
from planrunner.source import Source, notation_of

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


@rows(
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


@rows(
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


@rows(
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


def keys_in(text: str, name: str = "p.yaml") -> list[str]:
    found = load(Source(text, name, notation_of(name)), Registry()).findings
    return [text[each.span.start : each.span.end] for each in found if each.code == "PLAN224"]


GIVEN_OUT = [
    "sk-" + "proj-Ab12Cd34Ef56Gh78Ij90Kl12Mn34",
    "gh" + "p_0a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R",
    "glpat-" + "x7Qm2Zt9Lk4Vb8Np1Rw5",
    "AKIA" + "Q7XZ2M9PLK4VB8NW",
]


@rows("key", GIVEN_OUT)
@rows(
    "task",
    [
        "run: x, env: {{A: '{0}'}}",
        "run: 'curl -H \"a: Bearer {0}\" u'",
        "uses: http.get, with: {{url: u, headers: {{X: {0}}}}}",
    ],
)
def test_a_key_that_is_written_out_is_found_at_its_place(key: str, task: str) -> None:
    text = f"plan: p\nparams: {{n: 1}}\ntasks:\n  - {{id: a, timeout: 1m, {task.format(key)}}}\n"
    assert keys_in(text) == [key]


def test_a_key_is_found_once_wherever_it_stands() -> None:
    key = GIVEN_OUT[0]
    inner = f"{{id: b, run: x, env: {{API_KEY: {key}}}}}"
    text = (
        "plan: p\ndefaults: {timeout: 1m}\n"
        f"subplans: {{s: {{tasks: [{inner}]}}}}\ntasks:\n"
        f"  - {{id: a, loop: {{max: 2, tasks: [{inner}]}}}}\n  - {{id: c, foreach: [1], subplan: [{inner}]}}\n"
        f"  - {{id: d, subplan: s}}\nparams: {{k: {{default: {key}}}}}\n"
    )
    assert keys_in(text) == [key] * 4
    assert keys_in(f"plan p\n\ntask a\n  run: x\n  env: {{TOKEN: {key}}}\n", "p.plan") == [key]
    word = "qT7vB2mZ9xK4pL1sW8dR3nY6"
    assert keys_in(f"plan: p\ntasks: [{{id: a, run: x, env: {{API_KEY: {word}}}}}]\n") == [word]
    assert keys_in("plan: p\ntasks: [{id: a, run: 'echo -----BEGIN RSA PRIVATE KEY-----'}]\n")


@rows(
    "value",
    [
        "API_KEY: sk-...",
        "API_KEY: 'sk-proj-xxxxxxxxxxxxxxxxxxxxxxxxxxxx'",
        "TOKEN: '{{ params.token }}'",
        "TOKEN: $GITHUB_TOKEN",
        "KEY: AKIAIOSFODNN7EXAMPLE",
        "PASSWORD: postgres",
        "KEY: /etc/ssl/private/Server01Certificate2024.pem",
        "TOKEN: a-long-name-of-a-thing-with-2024-10-11-in-it",
        "KEY: 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
        "PUBLIC_KEY: qT7vB2mZ9xK4pL1sW8dR3nY6",
        "X: task-desk-proj-Ab12Cd34Ef56Gh78Ij90Kl12Mn34",
    ],
)
def test_what_is_not_a_key_is_let_be(value: str) -> None:
    assert keys_in(f"plan: p\ntasks: [{{id: a, run: x, env: {{{value}}}}}]\n") == []
