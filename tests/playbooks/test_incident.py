"""The playbook ``incident`` with a real service on loopback that is broken."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest
from stage import Stage

Staged = Callable[[str], Stage]


def price(stage: Stage) -> int:
    """The status that a customer gets; 0 where nobody answers."""
    url = next(word.removeprefix("url=") for word in stage.scene.arguments if word.startswith("url="))
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0


def report(stage: Stage) -> str:
    (path,) = (stage.folder / "postmortems").iterdir()
    return path.read_text()


def files(stage: Stage) -> dict[str, bytes]:
    ignored = {"service.log", "notices.txt", "planrunner.yaml"}
    paths = [path for path in stage.folder.rglob("*") if path.is_file() and not {".git", ".planrunner"} & {*path.parts}]
    return {str(path): path.read_bytes() for path in paths if path.name not in ignored}


def answered(stage: Stage, option: str) -> None:
    done = stage.planrunner("answer", "last", "decide", option, "--reason", "the log names it")
    assert done.code == 0, done.err


def test_a_bad_configuration_is_found_taken_back_and_told(staged: Staged) -> None:
    stage = staged("incident")
    before = files(stage)
    assert price(stage) == 500
    run = stage.exec("-p", "patience=1s")
    assert (run.code, run.status("decide")) == (8, "blocked")
    assert (run.outputs("severity")["value"], run.status("may-ask")) == ("critical", "completed")
    asked = stage.planrunner("gates", "last").out
    assert all(
        word in asked for word in ("config  94.3% supported", '-{"tax": 0.19}', "TypeError", "(cost one restart)")
    )
    assert files(stage) == before  # nothing has happened yet
    # what does not help is undone, and the person is asked again
    answered(stage, "restart")
    run = stage.resume()
    assert (run.code, run.status("decide"), price(stage)) == (8, "blocked", 500)
    assert files(stage) == before
    answered(stage, "restore")
    run = stage.resume()
    assert (run.code, run.run["status"], price(stage)) == (0, "completed", 200)
    told = report(stage)
    assert "mitigated by restore" in told and "chose restore: the log names it" in told and '+{"tax": "19%"}' in told
    assert len((stage.folder / "notices.txt").read_text().splitlines()) == 2
    # and back to how it was
    back = stage.planrunner("rollback", "last")
    assert back.code == 0, back.err
    assert (files(stage), price(stage)) == (before, 500)


def test_a_mitigation_that_is_killed_goes_on(staged: Staged) -> None:
    stage = staged("incident")
    stage.exec()
    answered(stage, "restore")
    stage.killed("mitigate/restart", "resume", "last", "--unattended")
    run = stage.resume()
    assert (run.code, run.run["status"], price(stage)) == (0, "completed", 200), run.out
    assert len((stage.folder / "notices.txt").read_text().splitlines()) == 2
    assert "mitigated by restore" in report(stage)


def test_a_service_that_is_gone_is_started(staged: Staged, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BROKEN", "gone")
    stage = staged("incident")
    assert price(stage) == 0
    stage.exec()
    assert "process  9" in stage.planrunner("gates", "last").out
    answered(stage, "restart")
    run = stage.resume()
    assert (run.run["status"], price(stage)) == ("completed", 200)


def test_it_is_handed_over_with_what_is_known(staged: Staged) -> None:
    stage = staged("incident")
    before = files(stage)
    stage.exec()
    answered(stage, "hand-over")
    run = stage.resume()
    assert (run.code, run.run["status"], price(stage)) == (1, "failed", 500)
    assert "handed over by" in run.run["tasks"]["handed-over"]["detail"]
    assert "not mitigated" in report(stage)
    Path(stage.folder / "postmortems" / f"{run.run['run_id']}.md").unlink()
    assert files(stage) == before


@pytest.mark.parametrize("refused", ["url", "dependencies"])
def test_an_address_that_the_settings_refuse_is_no_incident(staged: Staged, refused: str) -> None:
    stage = staged("incident")
    elsewhere = "http://127.0.0.1:9/"
    more = f"url={elsewhere}" if refused == "url" else f'dependencies=["{elsewhere}"]'
    run = stage.exec("-p", more)
    assert (run.code, run.run["status"]) == (1, "failed")
    assert "network: {private: [" in run.run["tasks"]["may-ask"]["detail"]
    assert "omitted" in {run.status("requests"), run.status("needed")}
    assert not (stage.folder / "notices.txt").exists()


def test_nothing_happens_where_nothing_fails(staged: Staged, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BROKEN", "nothing")
    stage = staged("incident")
    run = stage.exec()
    assert (run.code, run.status("healthy"), run.status("decide")) == (0, "completed", "skipped")
    assert not (stage.folder / "notices.txt").exists() and not (stage.folder / "postmortems").exists()
