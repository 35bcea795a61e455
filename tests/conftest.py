"""What every test gets: an end after a while, an environment in which nothing of the caller's settings shows, and a
secret in it that must not be found in anything a run kept or showed."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections import Counter
from collections.abc import Generator, Iterator
from itertools import accumulate
from pathlib import Path
from types import FrameType

import pytest
from hypothesis import HealthCheck, settings

sys.path += [str(Path(__file__).parent), str(Path(__file__).parent / "safety" / "secrets")]

from canaries import EAR, VARIABLE, canary, is_told, told_in
from slow import LONG, ROOMS, has_samples, is_slow

TESTS = Path(__file__).parent
HERE = Path.cwd()

SECONDS = 300.0  # ends what hangs, and nothing else: a busy machine takes many times the usual time

# Shared machines are slow now and then: an example's own time says nothing here, the limit below ends what hangs.
settings.register_profile(
    "exploring", deadline=None, derandomize=False, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.register_profile("same", settings.get_profile("exploring"), derandomize=True)
settings.load_profile("same")  # .ci/nightly explores

_SETTINGS_OF_THE_CALLER = (
    "AGENT", "AI_AGENT", "CI", "CLICOLOR_FORCE", "COLUMNS", "FORCE_COLOR", "GITHUB_ACTIONS", "GITHUB_STEP_SUMMARY",
    "GITLAB_CI", "LINES", "NO_COLOR",
)  # fmt: skip


for _number in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
    # whoever starts the tests in the background or under nohup has them ignore what is sent here
    if signal.getsignal(_number) is signal.SIG_IGN:
        signal.signal(_number, signal.default_int_handler if _number == signal.SIGINT else signal.SIG_DFL)


class TookTooLong(BaseException):
    """Not an Exception: a test that catches those must still end."""


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Tests wait a part of their time, so one more than there are processors keeps those busy; each collects them all."""
    return len(os.sched_getaffinity(0)) + 1


def pytest_sessionstart(session: pytest.Session) -> None:
    """Has each worker begin to collect at another place: the assertions of a file are rewritten by the one that gets to
    it first, which takes half of the time of collecting, and the others read what it has kept."""
    worker = getattr(session.config, "workerinput", None)
    if worker is None or [Path(word).resolve() for word in session.config.args] != [TESTS]:
        return
    rooms = sorted(path for path in TESTS.iterdir() if path.is_dir() and any(path.rglob("test_*.py")))
    sizes = [sum(file.stat().st_size for file in room.rglob("*.py")) for room in rooms]
    number = int(worker["workerid"].removeprefix("gw")) % worker["workercount"]
    before = sum(sizes) * number / worker["workercount"]
    start = sum(total <= before for total in accumulate(sizes))
    session.config.args = [str(room) for room in (*rooms[start:], *rooms[:start])]


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """`./dev test` does not even import files of which it runs no test."""
    path = collection_path.relative_to(TESTS).as_posix() if collection_path.is_relative_to(TESTS) else ""
    slow = path.endswith(".py") and path.startswith(ROOMS) and not has_samples(path)
    return True if slow and config.getoption("markexpr") == "not slow" else None


def _file(item: pytest.Item) -> str:
    return item.nodeid.partition("::")[0].removeprefix("tests/")


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Generator[None, None, None]:
    """Tests of one file stay together, those of long ones first, in the same order whatever was collected first."""
    tests = Counter(map(_file, items))
    place = {file: (LONG.index(file) if file in LONG else len(LONG), -tests[file], file) for file in tests}
    items.sort(key=lambda item: place[_file(item)])
    for item in items:
        if is_slow(item.nodeid.removeprefix("tests/")):
            item.add_marker(pytest.mark.slow)
    yield
    items.sort(key=lambda item: place[_file(item)])


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
def _data_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Keys and heads of the tests are not those of the caller; what whole modules share is made before any one test."""
    home = tmp_path_factory.mktemp("data") / "state"
    home.mkdir()
    os.environ["XDG_DATA_HOME"] = str(home)
    yield str(home)
    shared = [
        path
        for path in tmp_path_factory.getbasetemp().iterdir()
        if path not in _LOOKED_THROUGH and not path.is_symlink()
    ]
    _refuse_leaks([leak for path in shared for leak in told_in(path)])


EAR.listen()
_LOOKED_THROUGH: set[Path] = set()


def _refuse_leaks(found: list[str]) -> None:
    assert not found, f"secrets of the tests were kept or shown: {found[:8]}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, None, None]:
    """No run that the test made kept, printed or handed on a canary, and the next test begins where this one did."""
    yield
    here = os.getcwd()
    if here != str(HERE):
        os.chdir(HERE)
        raise AssertionError(f"the test left the folder of the tests for {here}")
    found = EAR.take()
    folder = getattr(item, "funcargs", {}).get("tmp_path")
    if isinstance(folder, Path):
        _LOOKED_THROUGH.add(folder)
        found += told_in(folder)
    found += [f"printed by the test: {key}" for _, key, text in item._report_sections if is_told(text.encode())]
    _refuse_leaks(found)


_OFTEN = gc.get_threshold()


@pytest.fixture(autouse=True)
def collector() -> Iterator[None]:
    """Garbage is collected as before: a command that runs in this process switches that off or makes it rare, and files that
    nothing refers to any more would stay open."""
    yield
    gc.unfreeze()
    gc.set_threshold(*_OFTEN)
    gc.enable()


@pytest.fixture(autouse=True)
def _neutral_environment(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, _data_home: str) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", _data_home)
    if request.node.get_closest_marker("prints_environment") is None:
        monkeypatch.setenv(VARIABLE, canary("environment"))
    for name in list(os.environ):
        if name.startswith("PLANRUNNER_") or name in _SETTINGS_OF_THE_CALLER:
            monkeypatch.delenv(name)
