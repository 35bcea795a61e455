"""A small shop that pins four packages, in a git repository with a bare remote.

Real: git, pip, virtual environments, and a package index on loopback with wheels that are built here. The forge is a
stand-in with the routes of GitHub, which keeps its pull requests in forge.json. No model takes part.

Of the packages, `invoice` and `pricing` have a good update and a new major version, `pricing` also a yanked one and one
for a Python to come; that of `shipping` breaks the shop, and that of `legacy` is excluded by the parameters.
"""

from __future__ import annotations

import hashlib
import io
import json
import zipfile
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

from planrunner.testing.rehearsal import Scene, rehearse


class Release(NamedTuple):
    code: str
    yanked: bool = False
    python: str = ">=3.8"


RELEASES = {
    "pricing": {
        "1.0.0": Release("def price(): return 10\n"),
        "1.1.0": Release("def price(): return 10.0\n"),
        "1.1.1": Release("def price(): return 0\n", yanked=True),
        "1.2.0": Release("def price(): return 10\n", python=">=3.99"),
        "2.0.0": Release("def price(currency): return 10\n"),
    },
    "shipping": {"2.3.0": Release("def cost(): return 3\n"), "2.4.0": Release("def cost(): return -3\n")},
    "invoice": {
        "1.2.0": Release("def line(total): return f'total {total}'\n"),
        "1.2.1": Release("def line(total): return f'total  {total}'.replace('  ', ' ')\n"),
        "2.0.0": Release("def line(total): return 'total ' + format(total)\n"),
    },
    "legacy": {"0.9": Release(""), "0.10": Release("")},
}
LOGGED = ("invoice", "pricing")
"""Packages with a changelog."""
PROJECT = {
    "requirements.txt": "invoice==1.2.0\nlegacy==0.9\npricing==1.0.0\nshipping==2.3.0\n",
    "shop.py": "import invoice, pricing, shipping\n\n\ndef order():\n    return pricing.price() + shipping.cost()\n",
    "test_shop.py": """\
import unittest

import invoice, shop


class Shop(unittest.TestCase):
    def test_an_order_costs_its_price_and_the_shipping(self):
        self.assertEqual(shop.order(), 13)

    def test_an_invoice_names_the_total(self):
        self.assertEqual(invoice.line(13), "total 13")
""",
    ".gitignore": "/build/\n/origin.git/\n/forge.json\n/planrunner.yaml\n/plans/\n/.planrunner/\n",
}


def prepare(scene: Scene) -> None:
    url = scene.serve(handler_of(scene.folder))
    scene.settings["git"] = {"protocols": ["file"]}
    scene.settings["forge"] = {
        "kind": "github",
        "url": f"{url}/forge",
        "repository": "ana/shop",
        "token": "FORGE_TOKEN",
    }
    scene.environment |= {"FORGE_TOKEN": "let-me-ask"}
    scene.environment |= {"PIP_CONFIG_FILE": "/dev/null", "PIP_FIND_LINKS": "", "PIP_NO_CACHE_DIR": "1"}
    scene.arguments += ["-p", f"index={url}/simple", "-p", "test=python -m unittest -q", "-p", 'allow=["*", "!legacy"]']
    if scene.new:
        scene.write(PROJECT)
        scene.git("init", "-q", "-b", "main")
        scene.git("add", "-A")
        scene.git("commit", "-qm", "Sell things")
        scene.git("init", "-q", "--bare", "-b", "main", "origin.git")
        scene.git("remote", "add", "origin", str(scene.folder / "origin.git"))
        scene.git("push", "-q", "-u", "origin", "main")


def wheel(name: str, version: str, host: str) -> tuple[str, bytes]:
    """The name and the content of a wheel with one module, and with the address of its changelog on ``host``."""
    release, info = RELEASES[name][version], f"{name}-{version}.dist-info"
    about = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\nRequires-Python: {release.python}\n"
    if name in LOGGED:
        about += f"Project-URL: Changelog, http://{host}/changes/{name}\n"
    files = {
        f"{name}.py": release.code,
        f"{info}/METADATA": about,
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: rehearsal\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    files[f"{info}/RECORD"] = "".join(f"{path},,\n" for path in (*files, f"{info}/RECORD"))
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for path, text in files.items():
            archive.writestr(zipfile.ZipInfo(path), text)
    return f"{name}-{version}-py3-none-any.whl", content.getvalue()


def listing(name: str, host: str) -> str:
    """The page of a package in the index (PEP 503)."""
    links = []
    for version, release in RELEASES[name].items():
        file, content = wheel(name, version, host)
        more = f' data-requires-python="{release.python.replace(">", "&gt;")}"' + ' data-yanked=""' * release.yanked
        links.append(f'<a href="/files/{file}#sha256={hashlib.sha256(content).hexdigest()}"{more}>{file}</a><br>')
    return "<!DOCTYPE html><html><body>" + "".join(links) + "</body></html>"


def changelog(name: str) -> str:
    return "# Changelog\n\n" + "".join(
        f"## {version}\n\n- What {version} of {name} brings.\n\n" for version in reversed(RELEASES[name])
    )


def handler_of(folder: Path) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        """The index, the changelogs and the forge."""

        def log_message(self, *_: object) -> None:
            return

        def do_GET(self) -> None:
            match urlsplit(self.path).path.strip("/").split("/"):
                case ["simple", name] if name in RELEASES:
                    self.reply(200, listing(name, self.headers["Host"]).encode(), "text/html")
                case ["files", file]:
                    name, version, *_ = file.split("-")
                    self.reply(200, wheel(name, version, self.headers["Host"])[1], "application/octet-stream")
                case ["changes", name] if name in LOGGED:
                    self.reply(200, changelog(name).encode(), "text/plain")
                case ["forge", "repos", *_, "pulls"]:
                    asked = parse_qs(urlsplit(self.path).query)
                    head = asked["head"][0].rpartition(":")[2]
                    self.reply_json(
                        200, [each for each in self.pulls() if (each["state"], each["head"]["ref"]) == ("open", head)]
                    )
                case _:
                    self.reply(404, b"", "text/plain")

        def do_POST(self) -> None:
            said, pulls = self.said(), self.pulls()
            number = len(pulls) + 1
            made = {
                "number": number,
                "html_url": f"http://{self.headers['Host']}/ana/shop/pull/{number}",
                "state": "open",
            }
            made |= {"title": said["title"], "body": said["body"], "draft": False}
            made |= {"head": {"ref": said["head"]}, "base": {"ref": said["base"]}}
            self.keep([*pulls, made])
            self.reply_json(201, made)

        def do_PATCH(self) -> None:
            number, pulls = int(self.path.rpartition("/")[2]), self.pulls()
            pulls[number - 1] |= self.said()
            self.keep(pulls)
            self.reply_json(200, pulls[number - 1])

        def pulls(self) -> list[dict[str, Any]]:
            path = folder / "forge.json"
            pulls: list[dict[str, Any]] = json.loads(path.read_text()) if path.exists() else []
            return pulls

        def keep(self, pulls: list[dict[str, Any]]) -> None:
            (folder / "forge.json").write_text(json.dumps(pulls, indent=1))

        def said(self) -> Any:
            return json.loads(self.rfile.read(int(self.headers["Content-Length"])))

        def reply_json(self, code: int, data: Any) -> None:
            self.reply(code, json.dumps(data).encode(), "application/json")

        def reply(self, code: int, content: bytes, kind: str) -> None:
            self.send_response(code)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

    return Handler


if __name__ == "__main__":
    rehearse(prepare, __file__)
