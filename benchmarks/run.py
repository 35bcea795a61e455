"""Measures planrunner beside others and writes ``docs/explanation/performance.md``.

    python benchmarks/run.py                       every row, seven rounds
    python benchmarks/run.py --rows S1,S4 --rounds 5
    python benchmarks/run.py --rows S5-long        the chain of 100,000, minutes
    python benchmarks/run.py --only-report         the page again from the figures kept

Run by hand or nightly, never by the test suite: the others are installed from the package index when first needed.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile

import peers
import report
from measure import CommandFailed
from rows import BY_DEFAULT, ROWS, SLOW, Bench


def main() -> int:
    options = _options()
    if options.only_report:
        report.write_page()
        return 0
    unknown = [row for row in options.rows if row not in ROWS]
    if unknown:
        print(f"unknown rows {', '.join(unknown)}; there are {', '.join(ROWS)}", file=sys.stderr)
        return 2
    environment = peers.ours()
    failed = False
    with tempfile.TemporaryDirectory(prefix="bench-", dir=options.folder or peers.CACHE) as folder:
        bench = Bench(folder, options.rounds, environment, options.slow_rounds or min(options.rounds, 5))
        for row in options.rows:
            failed |= not _measure(row, bench)
        os.chdir("/")
    report.write_page()
    return 1 if failed else 0


def _measure(row: str, bench: Bench) -> bool:
    """Runs one row, prints its lines as they are known and keeps them; False where a bar does not hold."""
    load = os.getloadavg()[0]
    try:
        lines = ROWS[row](bench)
    except (CommandFailed, peers.PeerMissing) as error:
        print(f"{row}: {error}", file=sys.stderr)
        return False
    for line in lines:
        print(report.plain(line), flush=True)
    report.keep(row, lines, bench.slow_rounds if row in SLOW else bench.rounds, load)
    return all(report.holds(line) for line in lines)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=lambda text: text.split(","), default=BY_DEFAULT, help="for example S1,S4")
    parser.add_argument("--rounds", type=int, default=7, help="counted rounds, after one that is not counted")
    parser.add_argument("--slow-rounds", type=int, default=0, help="of rows that take long, 5 or fewer if left out")
    parser.add_argument(
        "--folder",
        default=None,
        help="where to work (default: the cache; memory file systems sync for free)",
    )
    parser.add_argument("--only-report", action="store_true", help="write the page from the figures kept")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
