"""Answers the shells' requests for completion: commands from the table, the rest as cheaply as it can be had.

The scripts call ``planrunner __complete WORDS…`` with the words up to the cursor, the last one possibly empty. Each
line of the answer is a candidate, a tab and a description; the line ``:files`` asks the shell to complete file names.
"""

from __future__ import annotations

import sys

from planrunner.cli import words_for
from planrunner.cli.option_table import OPTIONS
from planrunner.cli.table import ALIASES, COMMANDS, module_of

FILES = ":files"

SCRIPTS: dict[str, str] = {
    "bash": """\
_planrunner() {
    local line
    COMPREPLY=()
    while IFS= read -r line; do
        if [ "$line" = ":files" ]; then
            compopt -o filenames 2>/dev/null
            local IFS=$'\\n'
            COMPREPLY+=($(compgen -f -- "${COMP_WORDS[COMP_CWORD]}"))
        else
            COMPREPLY+=("${line%%$'\\t'*}")
        fi
    done < <("${COMP_WORDS[0]}" __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -F _planrunner planrunner
""",
    "zsh": """\
#compdef planrunner
_planrunner() {
    local line
    local -a found
    for line in "${(@f)$(${words[1]} __complete "${(@)words[2,CURRENT]}" 2>/dev/null)}"; do
        if [[ "$line" == ":files" ]]; then
            _files
        elif [[ -n "$line" ]]; then
            found+=("${${line%%$'\\t'*}//:/\\\\:}:${line#*$'\\t'}")
        fi
    done
    (( ${#found} )) && _describe planrunner found
}
if [ "$funcstack[1]" = "_planrunner" ]; then _planrunner "$@"; else compdef _planrunner planrunner; fi
""",
    "fish": """\
function __planrunner_complete
    set -l words (commandline -opc) (commandline -ct)
    for line in ($words[1] __complete $words[2..-1] 2>/dev/null)
        if test "$line" = ":files"
            __fish_complete_path (commandline -ct)
        else
            echo $line
        end
    end
end
complete -c planrunner -f -a "(__planrunner_complete)"
""",
}

_TAKES_FILES = frozenset({"exec", "lint", "fmt", "convert", "graph", "init", "preview", "test", "trust", "chaos"})
_TAKES_RUN = frozenset(
    "answer approve budget cancel checkpoints events fork gates logs pause reject replay rerun resume retry rollback "
    "show why".split()
)
_TAKES_GATE = frozenset({"approve", "reject", "answer"})
_TAKES_TASK = frozenset({"logs", "why", "retry", "rerun"})
_TAKES_TASKS = frozenset({"retry", "rerun"})
_VALUED = ("-C", "--state", "--color", "--profile")
_CHOICES: dict[str, tuple[str, ...]] = {
    "--color": ("auto", "always", "never"),
    "--output": ("grouped", "prefixed", "none"),
    "--progress": ("auto", "tree", "plain", "github", "jsonl", "quiet"),
    "--to": ("yaml", "plan", "json"),
    "--fail-on": ("error", "warning", "note"),
}
CONFIG_ACTIONS = ("show", "check")
PLUGIN_ACTIONS = ("list", "show", "new", "check", "trust", "untrust")
_GLOBALS = ("-C", "--state", "--color", "--profile", "--no-input", "--no-plugins", "--version", "--help")


def answer(words: list[str]) -> int:
    """Print the candidates for the last word; never fails, because nobody would see why."""
    try:
        sys.stdout.write("".join(f"{line}\n" for line in candidates(words)))
        sys.stdout.flush()
    except Exception:
        return 1
    return 0


def candidates(words: list[str]) -> list[str]:
    """The lines of the answer, only those that begin with the last word."""
    *before, last = words or [""]
    state, rest = _globals(before)
    found = _for_command(rest, last, state) if rest else _at_top(before, last)
    return [line for line in found if line == FILES or line.startswith(last)]


def _globals(before: list[str]) -> tuple[str | None, list[str]]:
    """The state directory that is named before the command, and the words from the command on."""
    state = None
    at = 0
    while at < len(before) and before[at].startswith("-"):
        name, equals, value = before[at].partition("=")
        if name in _VALUED and not equals:
            at += 1
            value = before[at] if at < len(before) else ""
        if name == "--state":
            state = value
        at += 1
    return state or None, before[at:]


def _at_top(before: list[str], last: str) -> list[str]:
    if before and before[-1] == "--profile":
        return words_for.profiles()
    if before and before[-1] in _VALUED:
        return list(_CHOICES.get(before[-1], (FILES,)))
    if last.startswith("-"):
        return list(_GLOBALS)
    return [f"{name}\t{text}" for name, _, text, _ in COMMANDS]


def _for_command(words: list[str], last: str, state: str | None) -> list[str]:
    command, *given = words
    command = ALIASES.get(command, command)
    if module_of(command) is None:
        return []
    previous = given[-1] if given else ""
    if previous in _CHOICES:
        return list(_CHOICES[previous])
    if command == "graph" and previous == "--format":
        return ["text", "mermaid", "dot", "json"]
    if command == "lint" and previous == "--format":
        return ["text", "concise", "json"]
    if last.startswith("-"):
        return _options(command)
    if command == "completion":
        return sorted(SCRIPTS)
    if command == "secrets":
        return [FILES] if given else ["list", "check"]
    if command == "config":
        return list(CONFIG_ACTIONS) if not given else []
    if command == "plugins":
        return [FILES] if given[:1] in (["trust"], ["untrust"]) else list(PLUGIN_ACTIONS) if not given else []
    return [FILES] if command in _TAKES_FILES else _looked_up(command, given, last, state)


def _looked_up(command: str, given: list[str], last: str, state: str | None) -> list[str]:
    """Words that stand in the journal or belong to what is installed."""
    if command == "events" and given[-1:] == ["--type"]:
        return words_for.event_types()
    if command == "runs" and given[-1:] == ["--status"]:
        return words_for.statuses()
    places = [word for word in given if not word.startswith("-")]
    if command in _TAKES_RUN and not places:
        return [*words_for.runs(state), *(words_for.tasks("last", state, last) if command == "why" else [])]
    if command in _TAKES_TASK and (len(places) == 1 or (places and command in _TAKES_TASKS)):
        return words_for.tasks(places[0], state, last)
    if command in _TAKES_GATE and len(places) == 1:
        return words_for.gates(places[0], state)
    if command == "rule":
        return words_for.rules()
    return words_for.capabilities() if command == "capabilities" else []


def _options(command: str) -> list[str]:
    return ["--help\tTell more about the command.", *(f"{name}\t{text}" for name, text in OPTIONS[command])]
