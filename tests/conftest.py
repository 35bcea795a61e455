"""What every test gets: an end after a while, and an environment in which nothing of the caller's settings shows."""

from __future__ import annotations

import os
import signal
from collections.abc import Generator
from types import FrameType

import pytest
from hypothesis import HealthCheck, settings

SECONDS = 300.0  # ends what hangs, and nothing else: a busy machine takes many times the usual time

# Shared machines are slow now and then: an example's own time says nothing here, the limit below ends what hangs.
settings.register_profile("house", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
settings.register_profile("ci", settings.get_profile("house"), derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "house")

_SETTINGS_OF_THE_CALLER = (
    "AGENT", "AI_AGENT", "CI", "CLICOLOR_FORCE", "COLUMNS", "FORCE_COLOR", "GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY",
    "GITLAB_CI", "LINES", "NO_COLOR",
)  # fmt: skip


for _number, _usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
    # whoever starts the tests in the background or under nohup has them ignore what is sent here
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, _usual)


class TookTooLong(BaseException):
    """Not an Exception: a test that catches those must still end."""


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Tests wait a good part of their time, so one more than there are processors keeps those busy."""
    return len(os.sched_getaffinity(0)) + 1


def _limit(item: pytest.Item) -> float:
    patience = float(os.environ.get("PLANRUNNER_PATIENCE", "1"))  # the nightly proofs repeat tests far more often
    marker = item.get_closest_marker("limit")
    return patience * (float(marker.args[0]) if marker else SECONDS)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Stops a test that hangs, its fixtures included."""

    def stop(_signum: int, _frame: FrameType | None) -> None:
        raise TookTooLong(f"{item.nodeid} ran for more than {_limit(item):.0f} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, _limit(item))
    try:
        return (yield)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.fixture(scope="session", autouse=True)
def _data_home(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Keys and heads of the tests are not those of the caller; what whole modules share is made before any one test."""
    os.environ["XDG_DATA_HOME"] = home = str(tmp_path_factory.mktemp("data"))
    return home


@pytest.fixture(autouse=True)
def _neutral_environment(monkeypatch: pytest.MonkeyPatch, _data_home: str) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", _data_home)
    for name in list(os.environ):
        if name.startswith("PLANRUNNER_") or name in _SETTINGS_OF_THE_CALLER:
            monkeypatch.delenv(name)
