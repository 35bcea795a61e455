"""The rehearsal of `release`: a package with a history of two commits, a bare repository as its remote, and an index on
loopback that keeps what is uploaded in `index/`. Everything is real but twine: `twine.py` uploads in its place.
"""

from __future__ import annotations

import re
from http.server import BaseHTTPRequestHandler
from pathlib import Path

from planrunner.testing.rehearsal import Scene, rehearse

FILES = {
    "pyproject.toml": """\
[build-system]
requires = ["hatchling"]
build-backend = "hatchling.build"

[project]
name = "louder"
version = "0.1.0"

[tool.hatch.build.targets.sdist]
include = ["/louder", "/tests"]
""",
    "louder/__init__.py": '"""Louder texts."""\n\n\ndef louder(text: str) -> str:\n    return text.upper()\n',
    "tests/test_louder.py": 'from louder import louder\n\n\ndef test_louder():\n    assert louder("hi") == "HI"\n',
    "CHANGELOG.md": "# Changelog\n\n## Unreleased\n\n- The first function.\n",
    ".gitignore": "__pycache__/\n.planrunner/\ndist/\nindex/\nremote.git/\ntwine.py\n",
    "twine.py": '''\
"""A stand-in for twine: uploads each file with a request of its own, as `twine upload` does."""

import os
import sys
import urllib.request
from pathlib import Path

url = os.environ["TWINE_REPOSITORY_URL"]
for file in (word for word in sys.argv[2:] if not word.startswith("-")):
    request = urllib.request.Request(url, Path(file).read_bytes(), {"X-File": Path(file).name})
    urllib.request.urlopen(request).close()
    print("uploaded", Path(file).name)
''',
}


def prepare(scene: Scene) -> None:
    scene.settings["git"] = {"protocols": ["file"]}
    index = scene.serve(_index(scene.folder / "index"))
    scene.arguments += ["-p", "version=0.2.0"]
    scene.environment["TWINE_REPOSITORY_URL"] = f"{index}/legacy/"
    if not scene.new:
        return
    scene.write(FILES)
    scene.git("init", "-q", "--bare", "-b", "main", "remote.git")
    scene.git("init", "-q", "-b", "main")
    scene.git("remote", "add", "origin", "./remote.git")
    scene.git("add", "-A")
    scene.git("commit", "-qm", "Begin")
    scene.git("tag", "v0.1.0")
    scene.write(
        {
            "louder/__init__.py": FILES["louder/__init__.py"]
            + '\n\ndef loudest(text: str) -> str:\n    return louder(text) + "!"\n'
        }
    )
    scene.git("commit", "-qam", "Add the loudest")
    scene.git("push", "-q", "-u", "origin", "main", "v0.1.0")


def _index(folder: Path) -> type[BaseHTTPRequestHandler]:
    class Index(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            name = re.sub(r"[^\w.-]", "", self.headers["X-File"])
            folder.mkdir(exist_ok=True)
            (folder / name).write_bytes(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            return

    return Index


if __name__ == "__main__":
    rehearse(prepare, __file__, needs=("build", "hatchling", "pytest"))
