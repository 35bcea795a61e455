"""Names of runs: made so that they sort by time, and found again by a part people like to type."""

from __future__ import annotations

import difflib
import time
from collections.abc import Sequence

from planrunner.errors import NotFound

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_SHOWN = 8


def new_run_id(now: float, random: bytes) -> str:
    """A run id such as ``20261121-2259-k3f9qz``: the minute in UTC, two characters that go on counting (60 ms each),
    four that are random. ``now`` is seconds since 1970, ``random`` at least three bytes of ``os.urandom``."""
    slot = int(now % 60 * 1024 / 60)
    number = slot << 20 | int.from_bytes(random[:3], "big") & 0xFFFFF
    letters = "".join(_ALPHABET[number >> shift & 31] for shift in (25, 20, 15, 10, 5, 0))
    return f"{time.strftime('%Y%m%d-%H%M', time.gmtime(now))}-{letters}"


def only_match(wanted: str, matches: Sequence[str]) -> str:
    """The one run that ``wanted`` (a prefix, or the end after the last hyphen) stands for.

    Raises NotFound when there are more, naming them.
    """
    if len(matches) == 1:
        return matches[0]
    shown = ", ".join(f"`{run}`" for run in matches[:_SHOWN])
    rest = f" and {len(matches) - _SHOWN} more" if len(matches) > _SHOWN else ""
    raise NotFound(f"`{wanted}` may be any of these runs: {shown}{rest}", "type more of the run id")


def no_match(wanted: str, known: Sequence[str]) -> NotFound:
    """The error for a run nobody knows, with the nearest name among ``known``."""
    if not known:
        return NotFound("there are no runs yet", "start one with `planrunner exec PLAN`")
    near = difflib.get_close_matches(wanted, known, 1, 0.6)
    listed = "`planrunner runs` lists the runs"
    hint = f"did you mean `{near[0]}`? {listed}" if near else listed
    return NotFound(f"there is no run `{wanted}`", hint)
