"""Makes the golden histories anew: runs the plans under ``plans/`` and keeps what they recorded.

    python tests/app/history/record.py               all that are kept
    python tests/app/history/record.py hello.yaml    only these

A history that replays stays as it is worth: make one anew only where planrunner is meant to decide otherwise, and say
so in the commit. What tells of the machine it was made on is left out.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
HISTORIES = Path(__file__).resolve().parent / "histories"
FOLDER = Path("/tmp/planrunner-histories")
sys.path.insert(0, str(ROOT))

from planrunner.app.history.replay import history_of, written  # noqa: E402
from planrunner.machine.events import Entry, RunStarted  # noqa: E402


def main(names: list[str]) -> int:
    for name in names or [path.stem for path in sorted(HISTORIES.iterdir())]:
        shutil.rmtree(FOLDER, ignore_errors=True)
        text = record(FOLDER, name)
        (HISTORIES / f"{name}.jsonl").write_text(text, encoding="utf-8")
        print(f"{name}: {len(text.splitlines()) - 1} entries")
    return 0


def record(folder: Path, name: str) -> str:
    """Run one plan in a folder of its own and give the text of its history."""
    shutil.copytree(ROOT / "plans", folder / "plans")
    state = folder / "state"
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PLANRUNNER_STATE": str(state), "USER": "ada"}
    subprocess.run(
        [sys.executable, "-m", "planrunner", "--no-input", "exec", f"plans/{name}"],
        cwd=folder, env=environment, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False,
    )  # fmt: skip
    history = history_of("last", str(state))
    first = history.entries[0]
    assert isinstance(first.event, RunStarted)
    kept = {"planrunner": first.event.environment["planrunner"], "schema": 1, "directory": str(folder)}
    neutral = first.event._replace(environment={**kept, "env": first.event.environment.get("env", {})})
    entries = (Entry(1, first.at, neutral), *history.entries[1:])
    as_text = history.plan._replace(compiled=None)  # a later version reads the text, not this one's own form of it
    return written(history._replace(entries=entries, plan=as_text))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
