"""Language models for the plans of this folder: a server on this machine that answers as OpenAI, Anthropic, Google and
Ollama do, from what `models.json` says.

    python plans/capabilities/peers/models.py [PORT]

It is aimock, a program for Node.js. This installs it where it is looked for:

    npm install --prefix ~/.cache/planrunner/aimock @copilotkit/aimock

`AIMOCK_CLI_PATH` names the `dist/cli.js` of one that lies elsewhere.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import socket
import sys
from pathlib import Path

PORT = "4010"


def free_port() -> int:
    """A port below those that the system gives to others by itself, so no other program takes it first."""
    while True:
        port = random.randrange(15_000, 32_000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def command(port: str, answers: str) -> list[str] | None:
    """What starts the server; None where Node.js or aimock is missing."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    usual = os.path.join(cache, "planrunner/aimock/node_modules/@copilotkit/aimock/dist/cli.js")
    program, node = os.environ.get("AIMOCK_CLI_PATH") or usual, shutil.which("node")
    if node is None or not os.path.isfile(program):
        return None
    return [node, program, "--port", port, "--fixtures", answers, "--log-level", "warn"]


def main(arguments: list[str]) -> int:  # noqa: RET503
    port = arguments[0] if arguments else PORT
    found = command(port, str(Path(__file__).with_name("models.json")))
    if found is None:
        print(__doc__, file=sys.stderr)
        return 2
    print(f"models answer at http://127.0.0.1:{port}", flush=True)
    os.execv(found[0], found)  # noqa: S606 (its process becomes the server, so ending it ends that)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
