"""The process that runs Python of a project works in other versions of Python than planrunner's own."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

CHILD = Path(__file__).resolve().parents[2] / "planrunner" / "capabilities" / "python" / "child.py"

SHOP = """
from dataclasses import dataclass
from typing import Dict, List, Optional

@dataclass
class Item:
    name: str
    price: float = 1.0

def total(items: List[Item], note: Optional[str] = None) -> Dict[str, float]:
    return {"total": sum(item.price for item in items)}
"""


def others() -> list[str]:
    """This Python, and others from 3.8 on that are installed beside it or on the PATH."""
    beside = sorted(Path(sys.base_prefix).parent.glob("3.*/bin/python3"))
    named = [shutil.which(f"python3.{minor}") for minor in range(8, 20)]
    found = {}
    for path in [sys.executable, *map(str, beside), *filter(None, named)]:
        asked = subprocess.run(
            [path, "-c", "import sys; print(*sys.version_info[:2])"], capture_output=True, text=True, timeout=240
        )
        version = tuple(map(int, asked.stdout.split())) if asked.returncode == 0 else (0, 0)
        if version >= (3, 8):
            found.setdefault(version, path)
    return list(found.values())


@pytest.mark.parametrize("python", others())
def test_arguments_are_checked_and_results_come_back(python: str, tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(SHOP)

    def call(args: Any) -> dict[str, Any]:
        result = tmp_path / "result"
        order = {
            "kind": "function", "target": "shop:total", "args": args, "directory": str(tmp_path), "result": str(result),
            "limit": 1 << 20, "memory": 0,
        }  # fmt: skip
        subprocess.run(
            [python, "-B", str(CHILD)], input=json.dumps(order).encode(), timeout=240, check=False, cwd=tmp_path
        )
        said: dict[str, Any] = json.loads(result.read_bytes())
        result.unlink()
        return said

    assert call({"items": [{"name": "a", "price": 2}, {"name": "b"}]})["outputs"] == {"total": 3.0}
    assert call({"items": [{"name": 1}]})["message"] == "`args.items[0].name` has to be text, found 1"
