"""What a call without a plan shows: the plans of the project, with their titles."""

from __future__ import annotations

from planrunner.errors import USAGE
from planrunner.views.terminal import Terminal, cut, harmless, pad, width


def plan_lines(screen: Terminal) -> list[str]:
    """A line for each plan of the project: its file and its title. Empty where the project has no plan."""
    from planrunner.app.planfiles import project_plans

    plans = project_plans()
    column = min(48, max((width(path) for path, _ in plans), default=0))
    edge = screen.edge()
    return [
        cut(f"  {pad(harmless(path), column)}  {harmless(title)}".rstrip(), edge, screen.unicode)
        for path, title in plans
    ]


def list_plans(screen: Terminal) -> bool:
    """Write the plans of the project and what to do with them; False where there are none."""
    lines = plan_lines(screen)
    if lines:
        tips = ["", "run one: planrunner exec PLAN", "all commands: planrunner --help"]
        screen.write("\n".join([screen.paint("plans of this project", "bold"), *lines, *tips]) + "\n")
    return bool(lines)


def plan_missing(screen: Terminal) -> int:
    """Say that a plan has to be named, and which there are; the exit code of a wrong call."""
    lines = plan_lines(screen)
    known = (
        ["plans of this project:", *lines] if lines else ["  this project has no plan; `planrunner init` writes one"]
    )
    screen.write("\n".join(["error: no plan named; write `planrunner exec PLAN`", *known]) + "\n")
    return USAGE
