"""Times and identifiers that plans read: made of what the journal has, so that a replay makes the same."""

from __future__ import annotations

from hashlib import sha256


def utc(at: float) -> str:
    """Seconds since 1970 as ``2026-11-23T14:05:00Z``."""
    days, seconds = divmod(int(at // 1), 86_400)
    era, day = divmod(days + 719_468, 146_097)  # days since March 1 of the year 0; 400 years are an era
    year = (day - day // 1_460 + day // 36_524 - day // 146_096) // 365
    day -= 365 * year + year // 4 - year // 100
    month = (5 * day + 2) // 153
    day -= (153 * month + 2) // 5 - 1
    month = month + 3 if month < 10 else month - 9
    year += 400 * era + (month <= 2)
    hour, seconds = divmod(seconds, 3_600)
    return f"{year:04}-{month:02}-{day:02}T{hour:02}:{seconds // 60:02}:{seconds % 60:02}Z"


def uuid(key: str) -> str:
    """A UUID (version 8) that is the same for the same key."""
    digits = sha256(key.encode("utf-8", "surrogatepass")).hexdigest()
    variant = "89ab"[int(digits[16], 16) % 4]
    return f"{digits[:8]}-{digits[8:12]}-8{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:32]}"
