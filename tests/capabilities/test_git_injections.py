"""Whatever a repository, a caller or a plan says: no program runs, no other file and no other host is reached.

Each trap leaves a marker file when it is sprung; where plain git can spring it, that is shown first.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from git_server import bare, served
from git_workbench import Bench, git, repository, tree_state

from planrunner.capabilities.contract import Failure
from planrunner.capabilities.git.clone import clone
from planrunner.capabilities.git.commit import commit, merge
from planrunner.capabilities.git.configuration import OVERRIDDEN, is_refused
from planrunner.capabilities.git.history import bisect, diff, log, show
from planrunner.capabilities.git.index import add
from planrunner.capabilities.git.refs import branch, switch, tag, tag_delete
from planrunner.capabilities.git.remote import fetch, push
from planrunner.capabilities.git.worktree import status, worktree_add, worktree_remove

LOOPBACK = {"network": {"private": ["127.0.0.1"]}}


class Trap:
    """A repository with two branches and something to stage, and the program that must never run."""

    def __init__(self, folder: Path) -> None:
        self.marker = folder / "SPRUNG"
        self.program = folder / "evil.sh"
        self.program.write_text(f"#!/bin/sh\ntouch '{self.marker}'\nexit 0\n")
        self.program.chmod(0o755)
        self.work = repository(folder / "work", a_txt="one\n", b_txt="two\n")
        git(self.work, "switch", "-q", "-c", "other")
        (self.work / "a.txt").write_text("other\n")
        (self.work / "c.txt").write_text("new\n")
        git(self.work, "add", "-A")
        git(self.work, "commit", "-q", "-m", "other")
        git(self.work, "switch", "-q", "main")
        (self.work / "b.txt").write_text("mine\n")
        git(self.work, "commit", "-q", "-a", "-m", "mine")
        (self.work / "a.txt").write_text("changed\n")
        git(self.work, "remote", "add", "origin", str(folder / "nowhere"))
        self.bench = Bench(self.work, folder / "state", LOOPBACK)

    @property
    def sprung(self) -> bool:
        return self.marker.exists()

    def config(self, key: str, value: str = "") -> None:
        git(self.work, "config", key, value or str(self.program))

    def springs(self, *arguments: str, **more: Any) -> None:
        """Show that plain git falls for it."""
        git(self.work, *arguments, check=False, **more)
        assert self.sprung, "the trap is not set"
        self.marker.unlink()

    def everything(self) -> None:
        """Do whatever there is to do; being refused is fine."""
        for step in self.steps():
            with contextlib.suppress(Failure):
                step()
            assert not self.sprung, step
        git_dir = self.work / ".git"
        assert not [name for name in os.listdir(git_dir) if name.endswith((".lock", ".planrunner"))]

    def steps(self) -> Iterator[Callable[[], Any]]:
        do = self.bench.do
        yield lambda: do(status, untracked="all")
        yield lambda: do(diff)
        yield lambda: do(show)
        yield lambda: do(add, paths=["."])
        yield lambda: do(commit, subject="all", all=True)
        yield lambda: do(switch, ref="other")
        yield lambda: do(merge, ref="main", ff="never")
        yield lambda: do(tag, name="v1", message="one")


@pytest.fixture
def trap(tmp_path: Path) -> Trap:
    return Trap(tmp_path)


class TestTheRepositorysSettings:
    def test_a_monitor_of_files_is_not_asked(self, trap: Trap) -> None:
        trap.config("core.fsmonitor")
        trap.springs("status")
        trap.everything()

    @pytest.mark.parametrize("by_path", [False, True])
    def test_hooks_do_not_run(self, trap: Trap, by_path: bool) -> None:
        hooks = trap.work / ("own-hooks" if by_path else ".git/hooks")
        hooks.mkdir(exist_ok=True)
        for name in (
            *("pre-commit", "post-commit", "prepare-commit-msg", "commit-msg", "post-checkout", "pre-push"),
            *("post-merge", "post-rewrite", "post-index-change", "reference-transaction", "pre-auto-gc"),
        ):
            (hooks / name).symlink_to(trap.program)
        if by_path:
            trap.config("core.hooksPath", str(hooks))
        trap.springs("update-ref", "refs/heads/x", "HEAD")
        trap.everything()

    @pytest.mark.parametrize("kind", ["clean", "smudge", "process"])
    def test_filters_do_not_run(self, trap: Trap, kind: str) -> None:
        (trap.work / ".git" / "info" / "attributes").write_text("* filter=evil\n")
        trap.config(f"filter.evil.{kind}")
        (trap.work / "b.txt").unlink()
        trap.springs("checkout", "-f", "HEAD", "--", "b.txt") if kind != "clean" else trap.springs("add", "a.txt")
        trap.everything()
        with pytest.raises(Failure, match=f"`filter.evil.{kind}`") as caught:
            trap.bench.do(status)
        assert caught.value.failure == "policy"

    @pytest.mark.parametrize("key", ["diff.external", "diff.evil.command", "diff.evil.textconv"])
    def test_programs_for_differences_do_not_run(self, trap: Trap, key: str) -> None:
        (trap.work / ".gitattributes").write_text("* diff=evil\n")
        trap.config(key)
        trap.springs("diff")
        trap.everything()

    def test_programs_that_merge_do_not_run(self, trap: Trap) -> None:
        (trap.work / ".git" / "info" / "attributes").write_text("* merge=evil\n")
        git(trap.work, "commit", "-q", "-a", "-m", "changed")
        trap.config("merge.evil.driver")
        trap.springs("merge-tree", "--write-tree", "main", "other")
        trap.everything()
        with pytest.raises(Failure, match=r"merge\.evil\.driver"):
            trap.bench.do(merge, ref="other")

    def test_other_files_of_settings_are_not_read(self, trap: Trap, tmp_path: Path) -> None:
        (tmp_path / "more").write_text(f"[core]\n\tfsmonitor = {trap.program}\n[alias]\n\tstatus = !{trap.program}\n")
        trap.config("include.path", str(tmp_path / "more"))
        trap.springs("status")
        trap.everything()
        with pytest.raises(Failure, match=r"include\.path"):
            trap.bench.do(log)

    def test_settings_of_one_working_tree_count_as_well(self, trap: Trap) -> None:
        trap.config("extensions.worktreeConfig", "true")
        git(trap.work, "config", "--worktree", "core.fsmonitor", str(trap.program))
        git(trap.work, "config", "--worktree", "filter.evil.clean", str(trap.program))
        trap.springs("status")
        trap.everything()
        with pytest.raises(Failure, match=r"filter\.evil\.clean"):
            trap.bench.do(status)

    def test_programs_that_sign_and_check_signatures_do_not_run(self, trap: Trap) -> None:
        trap.config("gpg.program")
        for key in ("commit.gpgSign", "tag.gpgSign", "log.showSignature", "merge.verifySignatures", "push.gpgSign"):
            trap.config(key, "true")
        trap.springs("commit", "-q", "-a", "-m", "signed")
        trap.everything()

    def test_aliases_editors_and_pagers_mean_nothing(self, trap: Trap) -> None:
        for name in ("status", "log", "add", "commit-tree", "read-tree", "worktree"):
            trap.config(f"alias.{name}", f"!{trap.program}")
        for key in ("core.editor", "core.pager", "sequence.editor", "core.askPass", "pager.log", "pager.diff"):
            trap.config(key)
        trap.springs("commit", "--amend")
        trap.everything()

    def test_the_working_tree_cannot_be_said_to_lie_elsewhere(self, trap: Trap, tmp_path: Path) -> None:
        (tmp_path / "elsewhere").mkdir()
        for place in (tmp_path / "elsewhere", tmp_path, Path("/")):
            trap.config("core.worktree", str(place))
            with pytest.raises(Failure) as caught:
                trap.bench.do(switch, ref="other")
            assert caught.value.failure in ("policy", "logic")
            assert not (place / "c.txt").exists()
        trap.config("core.worktree", str(trap.work))
        assert trap.bench.do(status).branch == "main"

    def test_helpers_for_credentials_are_not_asked(self, trap: Trap, tmp_path: Path) -> None:
        bare(tmp_path / "srv" / "r.git", trap.work)
        with served(tmp_path / "srv", "ana:secret") as server:
            trap.config("remote.origin.url", f"{server.url}/r.git")
            trap.config("credential.helper", f"!{trap.program}")
            trap.springs("ls-remote", "origin", env={"GIT_TERMINAL_PROMPT": "0"})
            with pytest.raises(Failure) as caught:
                trap.bench.do(fetch)
            assert caught.value.failure == "denied" and not trap.sprung
            git(trap.work, "config", "--unset", "credential.helper")
            trap.config(f"credential.{server.url}.helper", f"!{trap.program}")
            trap.springs("ls-remote", "origin", env={"GIT_TERMINAL_PROMPT": "0"})
            with pytest.raises(Failure) as caught:
                trap.bench.do(fetch)
            assert caught.value.failure == "policy" and not trap.sprung

    def test_every_setting_that_names_a_program_is_overridden_or_refused(self) -> None:
        dangerous = (
            *("core.alternateRefsCommand", "core.gitProxy", "core.sshCommand", "remote.origin.vcs", "hook.x.command"),
            *("remote.origin.uploadpack", "remote.origin.receivepack", "remote.origin.proxy", "http.proxy"),
            *("http.https://x.example.proxy", "http.cookieFile", "url.ext::.insteadOf", "url.x.pushInsteadOf"),
            *("includeIf.gitdir:/.path", "filter.x.process", "merge.x.driver", "future.thing.command", "core.newThing"),
            *("credential.https://x.example.helper", "bundle.x.uri", "difftool.x.cmd", "mergetool.x.cmd"),
        )
        answered = ("core.sshCommand", "http.proxy", "difftool.x.cmd", "mergetool.x.cmd")
        assert [key for key in dangerous if not is_refused(key, "x")] == list(answered)
        assert not [
            key for key in ("core.bare", "branch.main.merge", "user.name", "remote.origin.url") if is_refused(key, "x")
        ]
        assert is_refused("something.else", "!sh") and "core.fsmonitor" in OVERRIDDEN


class TestTransports:
    @pytest.mark.parametrize("where", ["input", "settings", "instead"])
    def test_addresses_that_are_commands_are_refused(self, trap: Trap, where: str) -> None:
        evil = f"ext::{trap.program}"
        if where == "instead":
            trap.config(f"url.{evil} .insteadOf", "https://good.example/")
            trap.config("remote.origin.url", "https://good.example/r.git")
        elif where == "settings":
            trap.config("remote.origin.url", evil)
        trap.springs("ls-remote", "origin" if where != "input" else evil, env={"GIT_ALLOW_PROTOCOL": "ext:https"})
        more = {"url": evil} if where == "input" else {}
        for function in (fetch, push):
            with pytest.raises(Failure) as caught:
                trap.bench.do(function, **more)
            assert caught.value.failure == "policy"
        with pytest.raises(Failure):
            trap.bench.do(clone, url=evil, path="copy")
        assert not trap.sprung

    def test_the_program_for_ssh_is_not_the_repositorys(self, trap: Trap) -> None:
        trap.config("core.sshCommand")
        trap.config("remote.origin.url", "ssh://127.0.0.1:1/r.git")
        trap.springs("ls-remote", "origin")
        with pytest.raises(Failure):
            trap.bench.do(fetch)
        assert not trap.sprung

    def test_hosts_that_are_options_are_refused(self, trap: Trap) -> None:
        for url in (
            f"ssh://-oProxyCommand={trap.program}/r.git",
            f"-oProxyCommand={trap.program}:r.git",
            f"ssh://x@-oProxyCommand={trap.program}/r",
            f"--upload-pack={trap.program}",
            f"git@host:r\n--upload-pack={trap.program}",
        ):
            for function, more in ((fetch, {}), (clone, {"path": "copy"})):
                with pytest.raises(Failure) as caught:
                    trap.bench.do(function, url=url, **more)
                assert caught.value.failure == "policy", url
        assert not trap.sprung

    def test_the_program_at_the_other_end_is_not_the_repositorys(self, trap: Trap, tmp_path: Path) -> None:
        other = bare(tmp_path / "other.git", trap.work)
        trap.config("remote.origin.url", str(other))
        trap.config("remote.origin.uploadpack")
        trap.springs("ls-remote", "origin")
        trap.bench.settings["git"] = {**trap.bench.settings["git"], "protocols": ["file"]}
        with pytest.raises(Failure, match=r"remote\.origin\.uploadpack"):
            trap.bench.do(fetch)
        assert not trap.sprung

    def test_local_paths_are_for_those_whom_the_operator_lets(self, trap: Trap, tmp_path: Path) -> None:
        other = bare(tmp_path / "other.git", trap.work)
        for url in (str(other), f"file://{other}", "../other.git"):
            with pytest.raises(Failure, match="may not use `file:` addresses") as caught:
                trap.bench.do(clone, url=url, path="copy")
            assert caught.value.failure == "policy"
        trap.bench.settings["git"] = {**trap.bench.settings["git"], "protocols": ["file"]}
        assert trap.bench.do(clone, url=str(other), path="copy").branch == "main"

    def test_missing_objects_are_not_fetched_from_where_the_repository_says(self, trap: Trap) -> None:
        trap.config("remote.lazy.url", f"ext::{trap.program}")
        trap.config("remote.lazy.promisor", "true")
        trap.config("extensions.partialClone", "lazy")
        tree = git(trap.work, "rev-parse", "other^{tree}")
        (trap.work / ".git" / "objects" / tree[:2] / tree[2:]).unlink()
        trap.springs("log", "-1", "-p", "other", env={"GIT_ALLOW_PROTOCOL": "ext"})
        trap.everything()

    def test_private_addresses_are_refused_unless_the_operator_lists_them(self, trap: Trap, tmp_path: Path) -> None:
        bare(tmp_path / "srv" / "r.git", trap.work)
        trap.bench.settings["network"] = {}
        with served(tmp_path / "srv") as server:
            for host in ("127.0.0.1", "localhost", "[::1]", "0.0.0.0", "169.254.169.254", "127.1"):
                with pytest.raises(Failure) as caught:
                    trap.bench.do(fetch, url=f"http://{host}:{server.server_address[1]}/r.git")
                assert caught.value.failure in ("policy", "transient"), host
            assert server.asked == []

    def test_a_redirect_is_not_followed_and_gets_no_secret(self, trap: Trap, tmp_path: Path, monkeypatch: Any) -> None:
        monkeypatch.setenv("TOKEN", "s3cr3t")
        bare(tmp_path / "srv" / "r.git", trap.work)
        with served(tmp_path / "srv") as other, served(tmp_path / "srv", redirect=other.url) as server:
            host = server.url.removeprefix("http://")
            login = {"username": "bot", "password": "TOKEN"}
            trap.bench.settings["git"] = {**trap.bench.settings["git"], "credentials": {host: login}}
            with pytest.raises(Failure):
                trap.bench.do(fetch, url=f"{server.url}/r.git")
            assert server.asked and other.asked == []

    def test_secrets_are_in_no_address_no_argument_and_no_file(
        self, trap: Trap, tmp_path: Path, monkeypatch: Any
    ) -> None:
        with pytest.raises(Failure, match="takes no user and no password") as caught:
            trap.bench.do(fetch, url="https://bot:s3cr3t@host.example/r.git")
        assert "s3cr3t" not in str(caught.value)
        monkeypatch.setenv("TOKEN", "s3cr3t")
        spy = tmp_path / "bin" / "git"
        spy.parent.mkdir()
        real = subprocess.run(["which", "git"], capture_output=True, text=True, check=True).stdout.strip()
        spy.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" >> "{tmp_path}/arguments"\nexec {real} "$@"\n')
        spy.chmod(0o755)
        monkeypatch.setenv("PATH", f"{spy.parent}:{os.environ['PATH']}")
        bare(tmp_path / "srv" / "r.git", trap.work)
        with served(tmp_path / "srv", "bot:s3cr3t") as server:
            login = {"username": "bot", "password": "TOKEN"}
            host = server.url.removeprefix("http://")
            trap.bench.settings["git"] = {**trap.bench.settings["git"], "credentials": {host: login}}
            assert trap.bench.do(clone, url=f"{server.url}/r.git", path="copy").branch == "main"
        assert "clone" in (tmp_path / "arguments").read_text()
        spread = [path for path in tmp_path.rglob("*") if path.is_file() and b"s3cr3t" in path.read_bytes()]
        assert spread == []

    def test_what_the_other_side_says_cannot_steer_the_terminal(self, trap: Trap, tmp_path: Path) -> None:
        other = bare(tmp_path / "srv" / "r.git", trap.work)
        hook = other / "hooks" / "pre-receive"
        hook.parent.mkdir(exist_ok=True)
        hook.write_text("#!/bin/sh\nprintf '\\033]0;owned\\007\\033[2Jhello\\302\\2331m\\n' >&2\nexit 1\n")
        hook.chmod(0o755)
        with served(tmp_path / "srv") as server, pytest.raises(Failure) as caught:
            trap.bench.do(push, url=f"{server.url}/r.git", to="topic")
        assert caught.value.failure == "rejected"
        told = trap.bench.log.err + str(caught.value).encode()
        assert b"hello" in told
        assert not [bad for bad in (b"\x1b", b"\x07", b"\xc2\x9b") if bad in told]


class TestNames:
    @pytest.mark.parametrize("name", ["--output=SPRUNG", "-O/x", "--upload-pack=x", "--exec=x", "-d", "--git-dir=/x"])
    def test_a_name_is_never_an_option(self, trap: Trap, tmp_path: Path, name: str) -> None:
        name = name.replace("SPRUNG", str(trap.marker))
        calls: list[tuple[Any, dict[str, Any]]] = [
            *((log, {key: name}) for key in ("ref", "since")),
            *((diff, {"base": base, "target": name}) for base in ("HEAD", name)),
            (show, {"ref": name}), (branch, {"name": name}), (branch, {"name": "x", "start": name}),
            (switch, {"ref": name}), (switch, {"ref": name, "detach": True}), (tag, {"name": name}),
            (tag, {"name": "x", "ref": name}), (tag_delete, {"name": name}), (merge, {"ref": name}),
            (fetch, {"remote": name}), (fetch, {"url": name}), (fetch, {"branches": [name]}), (push, {"ref": name}),
            (push, {"to": name}), (clone, {"url": name, "path": "x"}), (clone, {"url": "https://x.example/r", "path": name}),
            (worktree_add, {"path": name}), (worktree_add, {"path": "x", "branch": name}),
            (worktree_remove, {"path": name}), (bisect, {"good": name, "test": ["true"]}),
        ]  # fmt: skip
        before = tree_state(trap.work)
        for function, inputs in calls:
            with pytest.raises(Failure):
                trap.bench.do(function, **inputs)
            assert not trap.sprung
        assert tree_state(trap.work) == before

    def test_paths_are_taken_literally(self, trap: Trap) -> None:
        for name in ("*", ":(top)a.txt", "--force", ":!a.txt", "a?.txt"):
            with pytest.raises(Failure, match="did not match"):
                trap.bench.do(add, paths=[name])
        (trap.work / "--force").write_text("x")
        (trap.work / ":(top)x").write_text("x")
        assert trap.bench.do(add, paths=["--force", ":(top)x"]).entries == ["--force", ":(top)x"]

    @pytest.mark.parametrize("path", ["../outside", "/etc/passwd", "a/../../x", ".git/config", "x/.GIT/hooks/y"])
    def test_paths_out_of_the_folder_are_refused(self, trap: Trap, path: str) -> None:
        for function, inputs in (
            *((each, {"paths": [path]}) for each in (add, status, log, diff)),
            (commit, {"subject": "x", "paths": [path]}), (worktree_add, {"path": path}),
            (clone, {"url": "https://x.example/r", "path": path}),
        ):  # fmt: skip
            with pytest.raises(Failure) as caught:
                trap.bench.do(function, **inputs)
            assert caught.value.failure == "policy"

    def test_a_link_does_not_lead_a_clone_out_of_the_folder(self, trap: Trap, tmp_path: Path) -> None:
        (tmp_path / "outside").mkdir()
        (trap.work / "link").symlink_to(tmp_path / "outside")
        with pytest.raises(Failure, match="a link") as caught:
            trap.bench.do(clone, url="https://x.example/r", path="link/copy")
        assert caught.value.failure == "policy"

    def test_a_trailer_cannot_add_lines(self, trap: Trap) -> None:
        for inputs in (
            {"subject": "x\n\nSigned-off-by: boss"}, {"subject": "x", "trailers": {"A": "b\nSigned-off-by: boss"}},
            {"subject": "x", "trailers": {"A: b\nC": "d"}}, {"subject": "x", "author": "A <a>\nB <b>"},
        ):  # fmt: skip
            with pytest.raises(Failure):
                trap.bench.do(commit, all=True, **inputs)


class TestSurroundings:
    def test_variables_of_the_caller_and_of_the_plan_do_not_reach_git(
        self, trap: Trap, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        evil = {
            **dict.fromkeys(("GIT_EXTERNAL_DIFF", "GIT_SSH", "GIT_SSH_COMMAND", "GIT_EDITOR"), str(trap.program)),
            **dict.fromkeys(("GIT_ASKPASS", "SSH_ASKPASS", "GIT_PROXY_COMMAND", "GIT_PAGER"), str(trap.program)),
            "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "core.fsmonitor", "GIT_CONFIG_VALUE_0": str(trap.program),
            "GIT_CONFIG_PARAMETERS": f"'core.fsmonitor'='{trap.program}'",
            "GIT_DIR": "/nonexistent", "GIT_WORK_TREE": "/", "GIT_INDEX_FILE": str(tmp_path / "index"),
            "GIT_TRACE": str(trap.marker), "GIT_TRACE2": str(trap.marker), "GIT_EXEC_PATH": str(tmp_path / "evil-bin"),
            "GIT_TEMPLATE_DIR": str(tmp_path / "templates"), "GIT_ALLOW_PROTOCOL": "ext",
        }  # fmt: skip
        trap.springs("diff", env={"GIT_EXTERNAL_DIFF": str(trap.program)})
        trap.springs("status", env={name: value for name, value in evil.items() if "CONFIG" in name})
        (tmp_path / "evil-bin").mkdir()
        (tmp_path / "evil-bin" / "git").symlink_to(trap.program)
        trap.bench.env = {
            **evil,
            "PATH": f"{tmp_path}/evil-bin",
            "LD_PRELOAD": "/nonexistent.so",
            "HOME": str(tmp_path),
        }
        assert trap.bench.do(status).branch == "main"
        for name, value in evil.items():
            monkeypatch.setenv(name, value)
        assert trap.bench.do(diff).added == 1
        trap.everything()
        assert git(trap.work, "for-each-ref", "refs/heads/other") != ""

    def test_settings_of_the_user_decide_nothing_but_who_commits(
        self, trap: Trap, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        (tmp_path / "home").mkdir()
        (tmp_path / "home" / "attributes").write_text("* filter=evil diff=evil\n")
        (tmp_path / "home" / ".gitconfig").write_text(
            f"[core]\n\tfsmonitor = {trap.program}\n\tattributesFile = ~/attributes\n\thooksPath = {tmp_path}\n"
            f'[filter "evil"]\n\tclean = {trap.program}\n[user]\n\tname = Uma\n\temail = uma@example.org\n'
            f"[commit]\n\tgpgSign = true\n[gpg]\n\tprogram = {trap.program}\n"
        )
        own = {"HOME": str(tmp_path / "home"), "GIT_CONFIG_GLOBAL": str(tmp_path / "home" / ".gitconfig")}
        trap.springs("status", env=own)
        monkeypatch.setenv("HOME", own["HOME"])
        monkeypatch.delenv("GIT_CONFIG_GLOBAL", raising=False)
        trap.bench.settings["git"] = {}
        made = trap.bench.do(commit, subject="who", all=True)
        assert git(trap.work, "log", "-1", "--format=%an <%ae>", made.commit) == "Uma <uma@example.org>"
        trap.everything()

    def test_a_repository_inside_the_tree_is_not_asked(self, trap: Trap) -> None:
        inner = repository(trap.work / "inner", x="x\n")
        git(trap.work, "-c", "advice.addEmbeddedRepo=false", "add", "inner")
        git(trap.work, "commit", "-q", "-m", "module")
        git(inner, "config", "core.fsmonitor", str(trap.program))
        (inner / "x").write_text("changed\n")
        trap.springs("status")
        trap.everything()

    def test_a_folder_of_the_tree_cannot_pose_as_a_repository(self, trap: Trap) -> None:
        fake = trap.work / "fake"
        bare(fake, trap.work)
        git(fake, "config", "core.fsmonitor", str(trap.program))
        git(fake, "config", "core.bare", "false")
        git(fake, "config", "core.worktree", str(trap.work))
        trap.springs("-C", str(fake), "status")
        inside = Bench(fake, trap.bench.state)
        for function in (status, log):
            with pytest.raises(Failure):
                inside.do(function)
        assert not trap.sprung

    def test_submodules_of_a_clone_are_left_alone(self, trap: Trap, tmp_path: Path) -> None:
        evil = repository(tmp_path / "evil", x="x\n")
        (evil / ".gitmodules").write_text(
            f'[submodule "m"]\n\tpath = m\n\turl = "{trap.work}"\n\tupdate = checkout\n\tignore = none\n'
        )
        head = git(trap.work, "rev-parse", "HEAD")
        git(evil, "update-index", "--add", "--cacheinfo", f"160000,{head},m")
        git(evil, "add", ".gitmodules")
        git(evil, "commit", "-q", "-m", "module")
        bare(tmp_path / "srv" / "evil.git", evil)
        with served(tmp_path / "srv") as server:
            trap.bench.do(clone, url=f"{server.url}/evil.git", path="copy")
        assert os.listdir(trap.work / "copy" / "m") == []
        assert not (trap.work / "copy" / ".git" / "modules").exists()
        assert not list((trap.work / "copy" / ".git").glob("hooks/*"))

    def test_objects_that_are_attacks_do_not_come_in(self, trap: Trap, tmp_path: Path) -> None:
        evil = repository(tmp_path / "evil", x="x\n")
        blob = git(evil, "hash-object", "-w", "x")
        raw = b"100644 .git\0" + bytes.fromhex(blob)
        tree = git(evil, "hash-object", "-t", "tree", "-w", "--stdin", "--literally", input=raw)
        made = git(evil, "commit-tree", tree, "-m", "attack")
        git(evil, "update-ref", "refs/heads/main", made)
        bare(tmp_path / "srv" / "evil.git", evil)
        with served(tmp_path / "srv") as server, pytest.raises(Failure):
            trap.bench.do(clone, url=f"{server.url}/evil.git", path="copy")
        assert not (trap.work / "copy").exists()
