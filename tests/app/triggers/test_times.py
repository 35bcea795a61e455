"""The times of time tables: changes of the clock, times that were missed, tables that are no tables."""

from __future__ import annotations

from datetime import datetime
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest

from planrunner.app.triggers.times import due_times, next_times
from planrunner.errors import UsageError
from planrunner.safety.timetables import cron_fault, zone_fault
from planrunner.safety.triggers import Missed, Trigger

BERLIN = ZoneInfo("Europe/Berlin")


def at(text: str, fold: int = 0) -> float:
    """A moment by the clock on the wall in Berlin; ``fold`` 1 is the second time of an hour that comes twice."""
    return datetime.fromisoformat(text).replace(tzinfo=BERLIN, fold=fold).timestamp()


def trigger(cron: str, missed: Missed = "last") -> Trigger:
    return Trigger("t", "cron", "p.yaml", cron=cron, timezone="Europe/Berlin", missed=missed)


def wall(times: list[float]) -> list[str]:
    return [datetime.fromtimestamp(each, BERLIN).strftime("%d. %H:%M") for each in times]


class TestChangesOfTheClock:
    def test_a_time_that_is_jumped_over_in_spring_is_due_right_after_the_jump(self) -> None:
        times = next_times(trigger("30 2 * * *"), at("2026-03-28T12:00"), 3)
        assert wall(times) == ["29. 03:00", "30. 02:30", "31. 02:30"]

    def test_a_time_that_comes_twice_in_autumn_is_due_once(self) -> None:
        times = next_times(trigger("30 2 * * *"), at("2026-10-24T12:00"), 3)
        assert wall(times) == ["25. 02:30", "26. 02:30", "27. 02:30"]
        assert times[0] == at("2026-10-25T02:30", fold=0)

    def test_every_hour_is_every_hour_that_passes(self) -> None:
        spring = next_times(trigger("0 * * * *"), at("2026-03-29T00:30"), 4)
        assert wall(spring) == ["29. 01:00", "29. 03:00", "29. 04:00", "29. 05:00"]
        autumn = next_times(trigger("0 * * * *"), at("2026-10-25T00:30"), 4)
        assert wall(autumn) == ["25. 01:00", "25. 02:00", "25. 02:00", "25. 03:00"]
        for times in (spring, autumn):
            assert {after - before for before, after in pairwise(times)} == {3600.0}

    @pytest.mark.parametrize("now", ["2026-03-29T03:00:30", "2026-03-30T09:00"])
    def test_the_night_of_the_jump_starts_one_run(self, now: str) -> None:
        since = at("2026-03-29T00:00")
        assert wall(due_times(trigger("30 2 29 * *"), since, at(now))) == ["29. 03:00"]


class TestANightOfStandingStill:
    SINCE, MORNING = at("2026-11-25T22:00"), at("2026-11-26T08:10")

    @pytest.mark.parametrize(
        ("missed", "wanted"),
        [
            ("skip", []),
            ("last", ["26. 08:00"]),
            ("all", ["25. 23:00", *(f"26. 0{hour}:00" for hour in range(9))]),
        ],
    )
    def test_missed_times_are_passed_over_or_made_up_for_as_the_trigger_says(
        self, missed: Missed, wanted: list[str]
    ) -> None:
        assert wall(due_times(trigger("0 * * * *", missed), self.SINCE, self.MORNING)) == wanted

    @pytest.mark.parametrize("missed", ["skip", "last"])
    def test_a_time_that_is_a_moment_late_is_not_missed(self, missed: Missed) -> None:
        now = at("2026-11-26T08:00:20")
        assert wall(due_times(trigger("0 * * * *", missed), self.SINCE, now)) == ["26. 08:00"]

    def test_nothing_is_due_before_its_time_or_twice(self) -> None:
        hourly = trigger("0 * * * *", "all")
        assert due_times(hourly, at("2026-11-26T08:00"), at("2026-11-26T08:59:59")) == []
        assert wall(due_times(hourly, at("2026-11-26T08:00"), at("2026-11-26T09:00"))) == ["26. 09:00"]


class TestFaults:
    @pytest.mark.parametrize(
        "text", ["* * * * *", "*/5 0-6,22 1 jan-mar MON-FRI", "0 0 L * *", "0 0 * * 5#2", "15 14 1 * 7", "0 0 29 2 *"]
    )
    def test_a_sound_table_is_read(self, text: str) -> None:
        assert cron_fault(text) == ""
        assert len(next_times(trigger(text), 0.0, 2)) == 2

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("* * * *", "five fields"),
            ("60 * * * *", "`60` is not a minute"),
            ("* 24 * * *", "`24` is not an hour"),
            ("* * 0 * *", "not a day of the month"),
            ("* * * 13 *", "not a month"),
            ("* * * * 8", "not a day of the week"),
            ("*/0 * * * *", "`*/0`"),
            ("a * * * *", "`a`"),
            ("1- * * * *", "`1-`"),
            ("* * * * ٣", "not a day of the week"),
            ("0 9 * * 5-1", "`5-1` ends before it begins: write `5-7,1`"),
            ("0 22-6 * * *", "write `22-23,0-6`"),
            ("0 0 31 2 *", "never comes: no month of `2` has a day 31"),
            ("0 0 31 4,6 *", "no month of `4,6` has a day 31"),
            ("0 0 */31 * MON#2", "`MON#2` is never a day of `*/31`"),
            ("0 0 * * MON#6", "`MON#6`"),
        ],
    )
    def test_what_is_wrong_is_told(self, text: str, said: str) -> None:
        assert said in cron_fault(text)

    @pytest.mark.parametrize(
        "text",
        ["0 0 31 2 1", "0 0 29 2 *", "0 0 L * *", "0 0 30-31 1,2 *", "0 0 * * sat-7", "*/7 3/4 1-9/3 jan-mar fri,sun",
         "0 0 */30 2 *", "0 0 1-7 * 5#1", "0 0 * 2 MON#5", "0 0 31 4 1-5"],
    )  # fmt: skip
    def test_what_is_accepted_has_a_time(self, text: str) -> None:
        assert cron_fault(text) == ""
        assert next_times(trigger(text), 0.0, 1)

    def test_a_table_that_never_comes_true_is_refused(self) -> None:
        with pytest.raises(UsageError, match="`t`"):
            next_times(trigger("0 0 31 2 *"), 0.0, 1)

    @pytest.mark.parametrize("name", ["Mars/Olympus", "", "../etc/passwd", "/etc/localtime", "Europe"])
    def test_a_zone_that_there_is_not_is_told(self, name: str) -> None:
        assert "is not a time zone" in zone_fault(name)
        assert zone_fault("Europe/Berlin") == ""
