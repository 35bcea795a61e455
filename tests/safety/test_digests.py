"""Digests of settings: they follow what is said, and from none can a secret be guessed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from planrunner.safety.digests import digests
from planrunner.safety.project import read_settings


def record(folder: Path, text: str) -> dict[str, Any]:
    (folder / "planrunner.yaml").write_text(text)
    return digests(read_settings(str(folder)), str(folder))


SECRETS = {
    "a variable of an MCP server": "tools: {t: {mcp: {command: [serve], env: {PIN: 'SECRET'}}}}",
    "a header of an MCP server": "tools: {t: {mcp: {url: 'https://a.example/', headers: {x-access: 'SECRET'}}}}",
    "an option of an MCP server": "tools: {t: {mcp: {command: [serve, --token, 'SECRET']}}}",
    "an option with its value": "tools: {t: {mcp: {command: 'serve --password=SECRET'}}}",
    "an input of a tool": "tools: {t: {uses: http.post, with: {headers: {api-key: 'SECRET'}}}}",
    "a tool in a list": "tools: [{id: t, uses: http.post, with: {password: 'SECRET'}}]",
    "the password of an address": "tools: {t: {uses: http.get, with: {url: 'https://me:SECRET@a.example/'}}}",
    "a command that prints a secret": "provider_credentials: [{id: a, auth: {source: command, command: [vault, --token=SECRET]}}]",
    "a parameter of a trigger": "triggers: {t: {plan: p.yaml, cron: '0 0 * * *', params: {password: 'SECRET'}}}",
    "an option of a search": "research: {provider: x, options: {api_key: 'SECRET'}}",
    "a tool of a profile": "profiles: {ci: {tools: {t: {mcp: {command: [serve], env: {PIN: 'SECRET'}}}}}}",
}


@pytest.mark.parametrize("text", SECRETS.values(), ids=SECRETS)
def test_no_digest_differs_with_a_secret_that_stands_in_the_settings(tmp_path: Path, text: str) -> None:
    (tmp_path / "p.yaml").write_text("plan: p\nparams: {password: {type: string}}\ntasks: [{id: a, run: 'true'}]\n")
    one, other = (record(tmp_path, text.replace("SECRET", secret)) for secret in ("1234", "5678"))
    assert one == other


TOLD = {
    "the name of a variable": "tools: {t: {mcp: {command: [serve], env: {WHAT: x}}}}",
    "an argument": "tools: {t: {mcp: {command: [serve, --root, WHAT]}}}",
    "an input": "tools: {t: {uses: files.read, with: {path: WHAT}}}",
    "a tool named as a map of variables": "tools: {env: {uses: files.WHAT}}",
    "where a credential comes from": "provider_credentials: [{id: a, auth: {source: env, env_var: WHAT}}]",
    "the limit of a model": "models: {m: {provider: ollama, model: WHAT, parameters: {max_tokens: 5}}}",
    "the policy": "policy: {network: [WHAT.example]}",
}


@pytest.mark.parametrize("text", TOLD.values(), ids=TOLD)
def test_the_digests_of_a_section_of_its_file_and_of_all_differ_with_what_is_said(tmp_path: Path, text: str) -> None:
    one, other = (record(tmp_path, text.replace("WHAT", what)) for what in ("ONE", "TWO"))
    assert one["digest"] != other["digest"]
    assert one["files"] != other["files"]
    assert one["sections"] != other["sections"]


def test_a_section_that_differs_changes_no_digest_of_another(tmp_path: Path) -> None:
    texts = ("scheduler: {max_parallel: 2}\ngit: {name: Ana}\n", "scheduler: {max_parallel: 3}\ngit: {name: Ana}\n")
    one, other = (record(tmp_path, text)["sections"] for text in texts)
    assert one["git"] == other["git"]
    assert one["scheduler"] != other["scheduler"]
