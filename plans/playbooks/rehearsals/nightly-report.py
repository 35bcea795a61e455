"""A shop whose figures lie in five places: a git log, a service with a JSON endpoint, a log file, an SQLite database,
and the runs of planrunner. All of them are real. The service and the chat that is notified listen on loopback; what
the chat was sent is in chat.json. The replies of the model are scripted.

The report of the day before is there already. Write `{"open": false}` to service.json to have the service answer 503.
"""

from __future__ import annotations

import datetime as dt
import json
import sqlite3
import subprocess
import sys
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

from planrunner.testing.rehearsal import Scene, rehearse
from planrunner.testing.scripted_model import Heard, Reply

FILES = {
    "app.log": "10:01 INFO started\n10:07 ERROR no route to the printer\n10:09 INFO stopped\n",
    "service.json": json.dumps({"customers": 41, "open": True}),
    "plans/backup.yaml": "plan: backup\ntasks:\n  - {id: copy, run: 'true', timeout: 1m}\n",
    ".gitignore": "/.planrunner/\n/plans/\n/planrunner.yaml\n/chat.json\n/shop.db\n/app.log\n/service.json\n",
}


def prepare(scene: Scene) -> None:
    url = scene.serve(handler_of(scene.folder))
    scene.model(answer)
    parameters = {
        "service": f"{url}/figures",
        "log": "app.log",
        "database": "sqlite:///shop.db",
        "commit": True,
        "summary": True,
        "notify": f"{url}/chat",
    }
    for name, value in parameters.items():
        scene.arguments += ["-p", f"{name}={json.dumps(value) if isinstance(value, bool) else value}"]
    trigger = {"plan": "plans/nightly-report.yaml", "cron": "30 5 * * 1-5", "timezone": "Europe/Berlin"}
    scene.settings["triggers"] = {"nightly-report": {**trigger, "params": parameters}}
    if scene.new:
        before = str(dt.datetime.now(dt.UTC).date() - dt.timedelta(days=1))
        figures = {"commits": {"number": 0}, "service": {"customers": 40, "open": True}, "errors": {"lines": 1}}
        figures |= {"orders": {"number": 1, "total": 20, "open": 1}, "runs": {"completed": 1, "failed": 0}}
        scene.write({**FILES, f"reports/{before}.json": json.dumps({"day": before, "figures": figures})})
        scene.git("init", "-q", "-b", "main")
        scene.git("add", "-A")
        now = dt.datetime.now(dt.UTC).isoformat()
        scene.git("commit", "-qm", "Sell tea", GIT_AUTHOR_DATE=now, GIT_COMMITTER_DATE=now)
        database = sqlite3.connect(scene.folder / "shop.db")
        database.executescript(
            "CREATE TABLE orders (total REAL, status TEXT); INSERT INTO orders VALUES (20, 'paid'), (15, 'open');"
        )
        database.close()
        scene.save()
        subprocess.run(
            [sys.executable, "-m", "planrunner", "exec", "backup", "--progress", "quiet"], cwd=scene.folder, check=True
        )


def answer(heard: Heard) -> Reply:
    """The words of the model, which has to be told the figures."""
    if "Not available" in heard.last():
        return "The service did not answer; one more order came in."
    return "One more order came in, and one more customer." if "customers | 40 | 41" in heard.last() else "No change."


def handler_of(folder: Path) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        """The service and the chat."""

        def log_message(self, *_: object) -> None:
            return

        def do_GET(self) -> None:
            figures = json.loads((folder / "service.json").read_text())
            self.reply(200 if figures["open"] else 503, figures)

        def do_POST(self) -> None:
            said, chat = json.loads(self.rfile.read(int(self.headers["Content-Length"]))), folder / "chat.json"
            heard: list[Any] = json.loads(chat.read_text()) if chat.exists() else []
            key = self.headers["Idempotency-Key"]
            if key not in [each["key"] for each in heard]:
                chat.write_text(json.dumps([*heard, {"key": key, **said}], indent=1))
            self.reply(200, {})

        def reply(self, code: int, data: Any) -> None:
            content = json.dumps(data).encode()
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

    return Handler


if __name__ == "__main__":
    rehearse(prepare, __file__)
