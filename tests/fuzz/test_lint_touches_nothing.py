"""What the kernel sees of `planrunner lint`: it reads, and writes to its two outputs. No connection, no child, no file
made, changed or removed, whatever the plan and the project around it say."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import mutations
import pytest

ACTS = (
    # the network
    *("socket socketpair connect bind listen accept accept4 sendto sendmsg sendmmsg".split()),
    # children and other programs
    *("execve execveat fork vfork clone clone3 kill tkill tgkill pidfd_send_signal ptrace".split()),
    # what is written
    *("rename renameat renameat2 unlink unlinkat rmdir mkdir mkdirat mknod mknodat link linkat symlink".split()),
    *("symlinkat chmod fchmod fchmodat chown fchown lchown fchownat truncate ftruncate fallocate utimensat".split()),
    *("setxattr fsetxattr lsetxattr mount umount2 chroot pwrite64 writev pwritev sendfile copy_file_range".split()),
    *("memfd_create io_uring_setup fsync fdatasync creat".split()),
)
LOOKED_AT = ("open", "openat", "openat2", "write")
MAKES = re.compile(r"O_WRONLY|O_RDWR|O_CREAT|O_TRUNC|O_APPEND|O_TMPFILE")

pytestmark = pytest.mark.skipif(
    shutil.which("strace") is None or not sys.platform.startswith("linux"), reason="needs strace, and Linux"
)


def traced(folder: Path, *words: str, stdin: bytes = b"") -> tuple[int, list[str], str]:
    """The code of a lint, the system calls of it that act on anything, and what it printed."""
    home = folder.parent / "home"
    home.mkdir(exist_ok=True)
    record = folder.parent / "calls"
    done = subprocess.run(
        [
            *("strace", "-f", "-qq", "-o", str(record), "-e", f"trace={','.join(known(ACTS + LOOKED_AT))}"),
            *(sys.executable, "-P", "-m", "planrunner", *words),
        ],
        cwd=folder,
        input=stdin,
        capture_output=True,
        timeout=240,
        env={
            **os.environ,
            "PYTHONPATH": str(mutations.ROOT),
            "PYTHONDONTWRITEBYTECODE": "1",
            "HOME": str(home),
            "XDG_CACHE_HOME": str(home / "cache"),
        },
    )
    calls = [line.partition(" ")[2].strip() for line in record.read_text(errors="replace").splitlines()]
    started = next(at for at, call in enumerate(calls) if call.startswith("execve("))
    printed = (done.stdout + done.stderr).decode(errors="replace")
    return done.returncode, [call for call in calls[started + 1 :] if acts(call)], printed


def acts(call: str) -> bool:
    if call.startswith("open"):
        return MAKES.search(call) is not None
    if call.startswith("write("):
        return not call.startswith(("write(1,", "write(2,"))
    return not call.startswith(("+++", "---"))


def known(names: tuple[str, ...]) -> list[str]:
    """The names with a mark that has strace pass over those that this processor does not have."""
    return [f"?{name}" for name in names]


def everything(folder: Path) -> dict[str, tuple[int, bytes]]:
    return {
        str(path.relative_to(folder)): (path.lstat().st_mtime_ns, path.read_bytes() if path.is_file() else b"")
        for path in sorted(folder.rglob("*"))
    }


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / ".git").mkdir()
    return folder


def test_good_plans_and_a_file_of_the_project(project: Path) -> None:
    shutil.copytree(mutations.ROOT / "plans", project / "plans")
    shutil.copy(mutations.ROOT / "tests/fuzz/project.yaml", project / "planrunner.yaml")
    before = everything(project)
    code, calls, printed = traced(project, "lint", "plans")
    assert calls == []
    assert code in (0, 1) and "finding" in printed + "findings", printed
    assert everything(project) == before


def test_hostile_plans(project: Path) -> None:
    for number in range(150):
        name, content = mutations.plan(3, number)
        (project / f"{number}-{name}").write_bytes(content)
    names = sorted(path.name for path in project.iterdir() if path.name.endswith((".yaml", ".plan", ".json")))
    (project / "planrunner.yaml").write_bytes(mutations.project(3, 0))
    code, calls, printed = traced(project, "lint", "--format", "concise", *names)
    assert calls == []
    assert (code, "Traceback" in printed) == (1, False)


HOSTILE = """\
plan: p
params: {x: "{{ env.HOME }}"}
tasks:
  - id: a
    run: curl http://127.0.0.1:9/$(id) > /tmp/owned; echo {{ params.x | upper }}
    timeout: 1m
  - {id: b, uses: http.request, with: {url: "http://127.0.0.1:9/"}, timeout: 1m}
  - {id: c, uses: git.clone, with: {url: "ext::sh -c id"}, timeout: 1m}
  - {id: d, uses: evil.act, timeout: 1m}
  - {id: e, uses: llm.complete, with: {prompt: "{% include '/etc/passwd' %}"}, timeout: 1m}
  - {id: f, subplan: linked.yaml}
  - {id: g, uses: python.run, with: {code: "import os; os.system('id')"}, timeout: 1m}
"""
PLUGIN = """\
import os, socket
os.system("touch owned")
from planrunner.api import capability

@capability("evil.act")
def act() -> None:
    pass

def planrunner_register_rules(register):
    os.system("touch owned")
"""


def test_a_plan_that_names_everything_that_could_act_beside_a_plugin_that_nobody_trusts(project: Path) -> None:
    (project / "p.yaml").write_text(HOSTILE)
    (project / "linked.yaml").write_text("plan: l\ntasks: [{id: x, run: touch owned}]\n")
    (project / ".planrunner" / "plugins").mkdir(parents=True)
    (project / ".planrunner" / "plugins" / "evil.py").write_text(PLUGIN)
    (project / "evil.py").write_text(PLUGIN)
    (project / "planrunner.yaml").write_text("plugins: {files: [evil.py]}\nnetwork: {ca: /etc/passwd}\n")
    for name in ("click", "lark", "jinja2", "sitecustomize", "yaml"):
        (project / f"{name}.py").write_text(PLUGIN)
    code, calls, printed = traced(project, "lint", ".")
    assert calls == []
    assert code == 1 and "is not trusted" in printed, printed
    assert not list(project.rglob("owned"))


def test_what_lies_outside_the_project_is_not_shown(project: Path) -> None:
    secret = "db_password: hunter2\nplan: [hunter2\n"
    (project.parent / "secret.yaml").write_text(secret)
    (project.parent / "keys.yaml").write_text("hunter2: hunter2\n")
    (project / "linked.yaml").symlink_to("../secret.yaml")
    (project / "found.plan.yaml").symlink_to("../secret.yaml")
    links = ("../secret.yaml", str(project.parent / "keys.yaml"), "../keys.yaml", "linked.yaml", "/etc/hostname")
    tasks = "".join(f"  - {{id: t{number}, subplan: {link}}}\n" for number, link in enumerate(links))
    (project / "p.yaml").write_text(f"plan: p\ntasks:\n{tasks}")
    code, calls, printed = traced(project, "lint", ".")
    assert (code, calls) == (1, [])
    assert printed.count("PLAN112") == 2 * len(links), "each is told, with the command that shows more"
    assert "hunter2" not in printed


@pytest.mark.parametrize(
    "words", [("--format", "json"), ("--diff",), ("--select", "PLAN5"), ("-",)], ids=lambda words: words[0]
)
def test_other_ways_to_call_it(project: Path, words: tuple[str, ...]) -> None:
    (project / "p.yaml").write_text(HOSTILE)
    _, calls, printed = traced(project, "lint", *words, *(() if words == ("-",) else ("p.yaml",)), stdin=b"plan: [\n")
    assert calls == []
    assert "Traceback" not in printed


def test_the_trace_sees_what_acts(project: Path) -> None:
    """The same trace of `lint --fix` has the file that is replaced, so an empty list says something."""
    (project / "p.yaml").write_text("plan: p\ntasks:\n  - {id: a, uses: noop, titel: x}\n")
    code, calls, _ = traced(project, "lint", "--fix", "p.yaml")
    assert code == 0
    assert any(call.startswith("rename") for call in calls) and any("O_CREAT" in call for call in calls)
