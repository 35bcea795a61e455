"""A program that tells what it was given, in every encoding and in pieces cut everywhere."""

from __future__ import annotations

import base64
import html
import json
import os
import shlex
import subprocess
import sys
import time
from urllib.parse import quote, quote_plus


def spoken(text: str) -> list[bytes]:
    """A text in eleven encodings, and in base64 at every alignment."""
    data = text.encode()
    return [
        data,
        json.dumps(text).encode(),
        quote(text, safe="").encode(),
        quote_plus(text).encode(),
        shlex.quote(text).encode(),
        data.hex().encode(),
        data.hex().upper().encode(),
        *(base64.b64encode(b"-" * before + data + b"~~~") for before in range(3)),
        *(base64.urlsafe_b64encode(b"-" * before + data + b"~~~") for before in range(3)),
        html.escape(text).encode(),
        repr(text).encode(),
        repr(data).encode(),
    ]


def values() -> list[str]:
    """Everything that came by variable, by file or by descriptor."""
    found = []
    for name, value in os.environ.items():
        if name.startswith(("CANARY_FILE", "CANARY_FD")):
            with open(value, encoding="utf-8") as file:
                found.append(file.read())
        elif name.startswith("CANARY"):
            found.append(value)
    return found


def main(what: str) -> int:
    told = [line for value in values() for line in value.splitlines()]
    assert told, "nothing was given"
    encodings = [each for line in told for each in spoken(line)]
    if what == "split":
        for each in encodings:
            for cut in range(1, len(each)):
                os.write(1, each[:cut])
                time.sleep(0.0002)
                os.write(1, each[cut:] + b"\n")
    elif what == "letters":
        for each in encodings:
            for letter in each:
                os.write(2, bytes([letter]))
    elif what == "files":
        with open("told.txt", "wb") as file:
            file.write(b"\n".join(encodings))
        with open("told.bin", "wb") as file:
            file.write(b"\0\x01\xff" * 500 + b"\0".join(encodings))
    elif what == "outputs":
        with open(os.environ["PLANRUNNER_OUTPUT"], "w", encoding="utf-8") as file:
            file.write(json.dumps({"all": [each.decode() for each in encodings], "by": {told[0]: told}}) + "\n")
        print(json.dumps(told))
    elif what == "fail":
        subprocess.run(["sh", "-c", "env; exec python3 -c 'import os; print(dict(os.environ))' >&2"], check=False)
        print(told[0], file=sys.stderr)
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
