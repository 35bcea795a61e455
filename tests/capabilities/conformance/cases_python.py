"""python.run, python.scan."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from planrunner.testing.conformance import Case


def _function(directory: Path) -> dict[str, Any]:
    (directory / "shop.py").write_text(
        "def total(prices: list[float], note: str = '') -> dict[str, object]:\n"
        "    print('adding up', note)\n    return {'total': sum(prices), 'count': len(prices)}\n"
    )
    args = {"prices": [1, 2.5], "note": "twice"}
    return {"function": "shop.py:total", "args": args, "python": sys.executable}


def _script(directory: Path) -> dict[str, Any]:
    (directory / "double.py").write_text("result = args['n'] * 2\n")
    return {"file": "double.py", "args": {"n": 21}, "python": sys.executable}


def _lines(code: str) -> Any:
    return lambda directory: {"code": code, "python": sys.executable}


def _made(text: str) -> Any:
    def given(directory: Path) -> dict[str, Any]:
        (directory / "made.py").write_text(text)
        return {"file": "made.py"}

    return given


CASES = [
    Case("python.scan", _made("import socket\nresult = 1\n"), name="looking"),
    Case("python.scan", _made("eval(args['x'])\n"), name="denied", fails="policy"),
    Case("python.run", _function, name="function"),
    Case("python.run", _script, name="script"),
    Case("python.run", _lines("result = {'made': open('made.txt', 'w').write('x')}"), name="writing"),
    Case("python.run", _lines("raise ValueError('no stock')"), name="failing", fails="logic"),
    Case("python.run", _lines("import time; time.sleep(30)"), name="long", waits=True),
]
