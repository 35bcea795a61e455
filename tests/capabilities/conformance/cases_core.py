"""noop, fail, sleep and shell."""

from __future__ import annotations

from pathlib import Path

from planrunner.testing.conformance import Case, Ready


def _script(directory: Path) -> Ready:
    (directory / "in.txt").write_text("one\ntwo\n")
    return Ready(run="sort -r in.txt > out.txt; echo done")


CASES = [
    Case("noop", lambda directory: {"value": {"a": [1, None, "x"]}}),
    Case("fail", lambda directory: {"class": "flaky", "message": "no luck"}, fails="flaky"),
    Case("sleep", lambda directory: {"duration": "10ms"}),
    Case("sleep", lambda directory: {"duration": "30s"}, name="long", waits=True),
    Case("shell", _script),
    Case("shell", lambda directory: Ready(run="exit 3"), name="failing", fails="logic"),
    Case("shell", lambda directory: Ready(run="sleep 30"), name="long", waits=True),
]
