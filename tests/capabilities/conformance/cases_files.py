"""The capabilities of files, on a small tree with a link and permissions of its own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from planrunner.testing.conformance import Case

DIFF = """\
--- a/docs/a.txt
+++ b/docs/a.txt
@@ -1,3 +1,3 @@
 one
-two
+zwei
 three
--- /dev/null
+++ b/new/b.txt
@@ -0,0 +1 @@
+b
"""


def tree(**inputs: Any) -> Callable[[Path], dict[str, Any]]:
    def setup(directory: Path) -> dict[str, Any]:
        (directory / "docs/deep").mkdir(parents=True)
        (directory / "docs/a.txt").write_text("one\ntwo\nthree\n")
        (directory / "docs/run.sh").write_text("echo\n")
        (directory / "docs/run.sh").chmod(0o750)
        (directory / "docs/deep/link").symlink_to("../a.txt")
        (directory / "page.txt").write_text("{% for name in names %}{{ name }} {% endfor %}\n")
        return inputs

    return setup


CASES = [
    Case("files.append", tree(path="docs/a.txt", content="four\n")),
    Case("files.artifact", tree(artifact={"sha256": "0" * 64}, path="docs/a.txt"), name="of nothing", fails="logic"),
    Case("files.copy", tree(path="docs", to="copied")),
    Case("files.copy", tree(path="docs/deep", to="docs", replace=True), name="into itself", fails="logic"),
    Case("files.delete", tree(path="docs", recursive=True)),
    Case("files.delete", tree(path="docs"), name="of what holds something", fails="logic"),
    Case("files.edit", tree(diff=DIFF)),
    Case("files.edit", tree(blocks=[{"path": "docs/a.txt", "search": "two", "replace": "zwei"}]), name="by blocks"),
    Case("files.edit", tree(diff=DIFF.replace("docs/a.txt", "../a.txt")), name="outside", fails="policy"),
    Case("files.glob", tree(patterns="docs/**", kind="any", sha256=True)),
    Case("files.mkdir", tree(path="new/folder", mode="0700", parents=True)),
    Case("files.move", tree(path="docs", to="new/place", parents=True)),
    Case("files.move", tree(path="docs/a.txt", to="docs/run.sh", replace=True), name="over another"),
    Case("files.read", tree(path="docs/deep/link")),
    Case("files.read", tree(path="/etc/passwd"), name="outside", fails="policy"),
    Case("files.restore", tree(path="docs", snapshot="0" * 64), name="of nothing", fails="logic"),
    Case("files.snapshot", tree(path="docs")),
    Case("files.template", tree(path="out.txt", template="page.txt", values={"names": ["ana", "bo"]}, mode="0600")),
    Case("files.template", tree(path="out.txt", template="page.txt"), name="without a value", fails="logic"),
    Case("files.write", tree(path="docs/a.txt", content="other\n")),
    Case("files.write", tree(path=".git/config", content="x", parents=True), name="to git", fails="policy"),
]
