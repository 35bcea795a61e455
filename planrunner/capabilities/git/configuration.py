"""Settings of git: what a repository's own may say, what those of the user are asked for, and who commits."""

from __future__ import annotations

import os
from collections.abc import Iterable

from planrunner.capabilities.contract import Context, Failure
from planrunner.capabilities.git.command import Git, program
from planrunner.capabilities.programs import Program, run
from planrunner.escapes import escaped
from planrunner.files.match import name_fits

REFUSED = (
    "include.path", "includeif.*.path",
    "core.alternaterefscommand", "core.gitproxy",
    "filter.*.clean", "filter.*.smudge", "filter.*.process",
    "merge.*.driver",
    "url.*.insteadof", "url.*.pushinsteadof",
    "remote.*:*.*", "fetch.bundle*",
    "remote.*.vcs", "remote.*.proxy", "remote.*.proxyauthmethod", "remote.*.uploadpack", "remote.*.receivepack",
    "http.*", "hook.*", "credential.*", "bundle.*",
)  # fmt: skip
"""Programs, files and addresses for which git has no switch. A remote whose name is an address stands for another one
wherever that address is given."""

OVERRIDDEN = (
    "core.hookspath", "core.fsmonitor", "core.sshcommand", "core.pager", "core.editor", "core.askpass",
    "core.worktree", "core.attributesfile", "core.excludesfile", "core.protecthfs", "core.protectntfs",
    "core.splitindex", "core.fsmonitorhookversion",
    "alias.*", "pager.*", "sequence.*", "gpg.*", "protocol.*", "ssh.variant", "trailer.*", "interactive.*",
    "diff.external", "diff.*.command", "diff.*.textconv", "diff.*.cachetextconv", "difftool.*", "mergetool.*",
    "guitool.*", "browser.*", "man.*", "web.*", "help.*", "tar.*", "sendemail.*", "instaweb.*", "submodule.*",
    "uploadpack.*", "receive.*", "http.postbuffer", "http.lowspeedlimit", "http.lowspeedtime", "http.version",
    "http.maxrequests", "http.sslverify", "http.proxy", "http.extraheader", "credential.helper", "credential.username",
    "credential.usehttppath", "maintenance.*", "gc.*", "lfs.*",
)  # fmt: skip
"""What our own settings, variables and arguments answer, or no command of ours asks for."""

CORE = frozenset(
    (
        "repositoryformatversion", "filemode", "bare", "logallrefupdates", "ignorecase", "precomposeunicode",
        "symlinks", "autocrlf", "eol", "safecrlf", "abbrev", "quotepath", "compression", "loosecompression",
        "bigfilethreshold",
        "sharedrepository", "checkstat", "trustctime", "untrackedcache", "preloadindex", "commentchar", "whitespace",
        "sparsecheckout", "sparsecheckoutcone", "commitgraph", "multipackindex", "deltabasecachelimit", "fsync",
        "fsyncmethod", "fsyncobjectfiles", "packedgitlimit", "packedgitwindowsize", "packedrefstimeout",
        "filesreflocktimeout", "warnambiguousrefs", "createobject", "longpaths", "checkroundtripencoding", "notesref",
        "usereplacerefs", "hidedotfiles",
    )
)  # fmt: skip
"""Settings of the section ``core`` that name no program."""

_SPEAKING = ("command", "cmd", "program", "driver", "helper", "proxy", "hook", "textconv", "editor", "askpass")


def read(git: Git, path: str) -> list[tuple[str, str]]:
    """Keys and values of a file of settings, without what it includes; empty where it does not exist."""
    if not os.path.lexists(path):
        return []
    if not os.path.isfile(path):
        raise Failure(f"{path} is not a regular file", rule="git.settings")
    items = git.items("config", "--file", path, "--no-includes", "-z", "--list")
    return [(key, value) for key, _, value in (item.partition("\n") for item in items)]


def check(settings: Iterable[tuple[str, str]], allowed: Iterable[str] = ()) -> None:
    """Raises Failure (policy) for settings that are refused, naming all of them."""
    patterns = tuple(pattern.lower() for pattern in allowed)
    bad = sorted({key for key, value in settings if is_refused(key, value) and not _fits(key, patterns)})
    if bad:
        names = ", ".join(f"`{escaped(key)[:80]}`" for key in bad[:5]) + (" …" if len(bad) > 5 else "")
        raise Failure(
            f"the repository's own settings name programs, files or addresses: {names}; "
            "remove them, or let them be with `git: {allow_config: […]}` in planrunner.yaml",
            rule="git.settings",
        )


def is_refused(key: str, value: str) -> bool:
    """Whether a setting could make git run, read or reach something that the plan does not name."""
    if _fits(key, OVERRIDDEN):
        return False
    section, _, variable = key.lower().partition(".")
    if _fits(key, REFUSED) or (section == "core" and variable not in CORE):
        return True
    if section in ("remote", "branch", "user", "author", "committer"):
        return False
    return variable.rpartition(".")[2].endswith(_SPEAKING) or value.startswith("!")


def _fits(key: str, patterns: Iterable[str]) -> bool:
    return any(name_fits(pattern, key.lower()) for pattern in patterns)


def user_value(context: Context, key: str) -> str:
    """The value of a setting such as ``user.name``; empty where it does not exist."""
    return next(iter(user_values(context, key)[-1:]), "")


def user_values(context: Context, key: str) -> list[str]:
    """All values of a setting. The user's own files are read for this alone; they decide nothing else."""
    names = ("HOME", "XDG_CONFIG_HOME", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM")
    hidden = {name: None for name in context.environment() if name.startswith(("GIT_", "LD_"))}
    own = {name: os.environ.get(name) for name in names}  # never what the plan says: it would trust in the user's name
    env: dict[str, str | None] = {**hidden, **own, "GIT_DIR": "/dev/null", "LC_ALL": "C"}
    call = Program((program(), "config", "--includes", "-z", "--get-all", key), "/", env, quiet=True, own=True)
    found = run(context, call)
    return [value for value in found.text.split("\0") if value] if found.code == 0 else []
