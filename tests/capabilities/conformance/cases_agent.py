"""The capabilities of agents, with a server that gives one answer to everything."""

from __future__ import annotations

import sys
from pathlib import Path

from planrunner.testing.conformance import Case

sys.path.append(str(Path(__file__).parent))

from cases_llm import CANARY, NEEDS, said, served

SOUND = said("```yaml\nplan: p\ntasks: [{id: a, run: ls, timeout: 1m}]\n```")
UNSOUND = said("```yaml\nplan: p\ntasks: [{id: a, runn: ls}]\n```")
GOAL = {"goal": "list the files", "rounds": 1}

TASK = {"agent": "coder", "prompt": "mend it"}
SHAPE = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}

REVIEW = said('{"findings": [], "score": 0.9, "approved": true}')
DOUBTS = said('{"findings": [], "score": 0.2, "approved": false}')
MATERIAL = {"text": "the sky is blue", "rubric": "is it short"}

CASES = [
    Case("agent.critique", served(MATERIAL, REVIEW), volatile=["attempts", "usage"], secrets=[CANARY], requires=NEEDS),
    Case("agent.critique", served(MATERIAL, DOUBTS), "of poor work", fails="criterion", requires=NEEDS),
    Case("agent.critique", served({"text": " "}), "of nothing", fails="logic", requires=NEEDS),
    Case("agent.critique", served(MATERIAL, delay=12), "of a slow model", waits=True, requires=NEEDS),
    Case("agent.ask", served(TASK, said("It is done.")), volatile=["attempts", "usage"], secrets=[CANARY], requires=NEEDS),
    Case("agent.ask", served({**TASK, "schema": SHAPE}, said("no")), "without an answer", fails="schema", requires=NEEDS),
    Case("agent.ask", served(TASK, delay=12), "of a slow model", waits=True, requires=NEEDS),
    Case("agent.plan", served(GOAL, SOUND), volatile=["attempts", "usage"], secrets=[CANARY], requires=NEEDS),
    Case("agent.plan", served(GOAL, UNSOUND), "of a model that knows no plans", fails="schema", requires=NEEDS),
    Case("agent.plan", served(GOAL, said("")), "without a plan", fails="schema", requires=NEEDS),
    Case("agent.plan", served(GOAL, delay=12), "of a slow model", waits=True, requires=NEEDS),
]  # fmt: skip
