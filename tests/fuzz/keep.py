"""Keep a hostile plan in `found/`, where it is linted by every test run: `python keep.py SEED NUMBER [NAME]`."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import mutations

if __name__ == "__main__":
    seed, number = map(int, sys.argv[1:3])
    made, content = mutations.plan(seed, number)
    stem = sys.argv[3] if len(sys.argv) > 3 else f"plan-{seed}-{number}"
    path = Path(__file__).parent / "found" / (stem + made[made.rindex(".") :])
    path.write_bytes(content)
    sys.stdout.write(f"{path}\n")
