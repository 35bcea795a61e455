"""Runs in the environment of planrunner: fifty secrets taken out of a stream in pieces of 64 KiB; prints the kinds of
text, then a round a line: megabytes of each kind in a second of processor."""

from __future__ import annotations

import base64
import random
import string
import sys
import time

from planrunner.redaction import Redactor

PIECE = 1 << 16
SIZE = 8 << 20


def secrets(chance: random.Random) -> list[str]:
    """Tokens, digests, words with numbers, short passwords and keys with signs in them."""
    letters = string.ascii_letters + string.digits
    return [
        made
        for number in range(10)
        for made in (
            "".join(chance.choices(letters, k=40)),
            chance.randbytes(16).hex(),
            f"correct-horse-{chance.randrange(10**6)}-battery",
            f"hunter{number}pass",
            "".join(chance.choices(f"{letters}!$%&/()=?'\"<>", k=16)),
        )
    ]


def kinds(chance: random.Random, known: list[str]) -> dict[str, bytes]:
    """What programs print; in ``leaks`` every fiftieth line holds a secret."""
    lines = [
        f"2026-11-22T20:{each % 60:02}:{each % 59:02}.{each % 999:03} INFO worker-{each % 8} took request "
        f"{chance.randbytes(8).hex()} path=/api/items/{each} in {chance.random() * 100:.3f} ms\n"
        for each in range(20_000)
    ]
    leaks = [f"token={chance.choice(known)}\n" if at % 50 == 0 else line for at, line in enumerate(lines)]
    return {
        "log": "".join(lines).encode(),
        "leaks": "".join(leaks).encode(),
        "base64": base64.b64encode(chance.randbytes(SIZE // 4)),
        "hex": chance.randbytes(SIZE // 4).hex().encode(),
        "binary": chance.randbytes(SIZE // 2),
    }


def main() -> None:
    chance = random.Random(7)
    known = secrets(chance)
    redactor = Redactor()
    for number, secret in enumerate(known):
        redactor.add(f"secret-{number}", secret.encode())
    texts = {name: (text * (SIZE // len(text) + 1))[:SIZE] for name, text in kinds(chance, known).items()}
    print(*texts)
    for _ in range(int(sys.argv[1])):
        rates = []
        for text in texts.values():
            stream, started, shown = redactor.stream(), time.process_time(), 0
            for at in range(0, len(text), PIECE):
                shown += len(stream.take(text[at : at + PIECE]))
            shown += len(stream.rest())
            rates.append(len(text) / (time.process_time() - started) / 1e6)
            assert shown
        print(*rates)


if __name__ == "__main__":
    main()
