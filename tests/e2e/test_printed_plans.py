"""Plans as the documents that asked for planrunner print them, and the same shapes of our own: lint finds no error, and a
run ends completed once people have answered what its words ask."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import workbench
from workbench import ROOT

SEEDS = ROOT.parent / "shared" / "seeds"
OK = ROOT / "tests" / "corpus" / "ok"
SHAPES = ["http3-research.yaml", "feature-x.yaml", "debug-500.yaml", "plan-build-search.json", "rfc-collect.yaml"]
SHAPES += ["one-task.yaml", "template.plan"]
PLACES = {
    "<id> [<id>...]": "scope agree",
    "task <id>": "task fetch-sources",
    "<kind>": "research",
    "<capability>": "shell",
    "<command>": "echo done",
    "<success criterion>": "exit_code == 0",
    "on failure -> <task id>": "on failure -> broaden",
    "on success -> <task id>": "on success -> summarize",
}
"""What stands for the places of the printed template of the text notation."""


def _printed() -> Iterator[tuple[str, str]]:
    """Every plan and task that the documents print, by the name of the file it would be in."""
    for document in sorted(SEEDS.glob("*.txt")) if SEEDS.is_dir() else []:
        text = document.read_text(encoding="utf-8", errors="replace")
        for number, (kind, block) in enumerate(re.findall(r"```(yaml|json)\n(.*?)```", text, re.DOTALL)):
            name = f"{document.name[:3]}-{number}"
            if block.startswith("task <"):
                for place, word in PLACES.items():
                    block = block.replace(place, word)
                block += "".join(f"\ntask {name}" for name in ("scope", "agree", "broaden", "summarize")) + "\n"
                yield f"{name}.plan", block
            elif re.search(r'^\s*"?(plan_id|id)"?:', block, re.MULTILINE) and "provider_credentials" not in block:
                yield f"{name}.{kind}", block


PRINTED = dict(_printed())


MODELS = """models:
  default: any
  any: {provider: openai-compatible, model: any, base_url: '%s', price: {input: 0, output: 0}}
"""


class Model(BaseHTTPRequestHandler):
    """Answers every request as a model of OpenAI's interface does."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        message = {"role": "assistant", "content": "a summary"}
        usage = {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7}
        answer = {
            "id": "one",
            "object": "chat.completion",
            "created": 1,
            "model": "any",
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            "usage": usage,
        }
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Nothing is printed of a request."""


class Project:
    """A folder with a search server, a model and one plan."""

    def __init__(self, folder: Path, web: str, model: str, name: str, text: str) -> None:
        self.folder, self.name = folder, name
        (folder / name).write_text(text, encoding="utf-8")
        settings = f"network:\n  private: [127.0.0.1, '::1']\nresearch: {{url: '{web}'}}\n{MODELS % model}"
        (folder / "planrunner.yaml").write_text(settings, encoding="utf-8")

    def __call__(self, *words: str) -> subprocess.CompletedProcess[str]:
        return workbench.planrunner(self.folder, *words, PLANRUNNER_STATE=str(self.folder / "state"))

    def run(self) -> tuple[int, list[dict[str, Any]]]:
        """The exit code once nobody is asked any more, and every question that was answered on the way."""
        code, asked = self("exec", self.name).returncode, []
        while code == 8 and len(asked) < 40:
            gates = json.loads(self("gates", "last", "--json").stdout)["gates"]
            assert gates, "the run waits and asks nobody"
            for gate in gates:
                asked.append(gate)
                self.answer(gate)
            code = self("resume", "last").returncode
        return code, asked

    def answer(self, gate: dict[str, Any]) -> None:
        fields = [f"{field['name']}={'one,two' if field['type'] == 'list' else 'done'}" for field in gate["form"]]
        options = [gate["options"][0]["name"]] if gate["options"] else []
        way = "answer" if fields or options else "approve"
        wanted = re.search(r"it is done when (.+) exists?\)$", gate["ask"])
        for name in wanted[1].split(" and ") if wanted else ():
            (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / name).touch()
        given = self(way, "last", gate["gate"], *options, *(f"-f{field}" for field in fields))
        assert given.returncode == 0, given.stderr


@pytest.fixture(scope="module")
def web() -> Iterator[str]:
    command = [sys.executable, str(ROOT / "plans" / "capabilities" / "peers" / "research_web.py"), "0"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    try:
        yield server.stdout.readline().strip()
    finally:
        server.terminate()
        server.wait(240)
        server.stdout.close()


@pytest.fixture(scope="module")
def model() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Model) as server:
        threading.Thread(target=server.serve_forever).start()
        yield f"http://127.0.0.1:{server.server_port}/v1"
        server.shutdown()


def _check(project: Project) -> list[dict[str, Any]]:
    linted = project("lint", project.name, "--format", "json")
    errors = [each for each in json.loads(linted.stdout)["findings"] if each["severity"] == "error"]
    assert not errors
    code, asked = project.run()
    shown = project("show", "last").stdout
    assert code == 0, shown
    return asked


@pytest.mark.skipif(not PRINTED, reason=f"there is no {SEEDS.parent.name}/{SEEDS.name} beside the project")
@pytest.mark.parametrize("name", sorted(PRINTED))
def test_what_the_documents_print_runs(name: str, tmp_path: Path, web: str, model: str) -> None:
    _check(Project(tmp_path, web, model, name, PRINTED[name]))


@pytest.mark.parametrize("name", SHAPES)
def test_a_shape_that_the_documents_print_runs(name: str, tmp_path: Path, web: str, model: str) -> None:
    _check(Project(tmp_path, web, model, name, (OK / name).read_text(encoding="utf-8")))


def _sections() -> Iterator[tuple[str, str]]:
    """The sections of settings that the documents print; where the print offers a choice the first is taken, and what
    stands alone under a heading gets that heading."""
    for document in sorted(SEEDS.glob("*.txt")) if SEEDS.is_dir() else []:
        text = document.read_text(encoding="utf-8", errors="replace")
        for number, block in enumerate(re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)):
            block = re.sub(r'("\w+") \| "\w+"', r"\1", block)
            block = re.sub(r"(?m)^ +(file_path|file_key|# If source == \"file\").*\n", "", block)
            if block.startswith("  "):
                block = f"scheduler:\n{block}"
            if re.match(r"(memory|provider_credentials|scheduler):", block):
                yield f"{document.name[:3]}-{number}", block


SETTINGS = dict(_sections())
OF_OUR_OWN = {
    "memory": "memory:\n  task_store: {backend: file, retention: {max_items: 10}}\n",
    "credentials": "provider_credentials:\n  - id: one\n    provider: anthropic\n    auth: {type: api_key, source: env, env_var: K}\n",
    "scheduler": "scheduler: {enabled: true, max_concurrency: 1, queue_policy: fifo, max_queue_size: 5}\n",
    "profiles": "cli_profiles: [{id: editor}]\n",
}


@pytest.mark.parametrize("name", [*sorted(SETTINGS), *OF_OUR_OWN])
def test_a_section_of_settings_loads_without_a_finding(name: str, tmp_path: Path) -> None:
    project = Project(tmp_path, "", "", "p.yaml", "plan: p\ntasks:\n  - {id: a, uses: noop}\n")
    section = (SETTINGS | OF_OUR_OWN)[name]
    (tmp_path / "planrunner.yaml").write_text(section, encoding="utf-8")
    checked = json.loads(project("config", "check", "--json").stdout)
    assert checked["findings"] == []
    assert project("exec", "p.yaml").returncode == 0
