"""The bare loop of the model library beside which a round of an agent is measured, and the model that both ask.

agent_rounds.py serve ROUNDS   a server that wants two files read a round; prints its address
agent_rounds.py bare ADDRESS   pydantic-ai's own loop with one tool
"""

from __future__ import annotations

import sys
import time

from planrunner.testing.scripted_model import Heard, Reply, ScriptedModel


def serve(rounds: int) -> None:
    def script(heard: Heard) -> Reply:
        round_ = sum(role == "assistant" for role, _ in heard.turns)
        if round_ >= rounds:
            return "Done."
        return [("files_read", {"path": "one.txt"}), ("files_read", {"path": f"two{round_ % 2}.txt"})]

    with ScriptedModel(script) as model:
        print(model.url, flush=True)
        time.sleep(3600)


def bare(address: str) -> None:
    from pydantic_ai import Agent
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider
    from pydantic_ai.usage import UsageLimits

    model = OpenAIChatModel("scripted", provider=OpenAIProvider(base_url=f"{address}/v1", api_key="none"))
    agent = Agent(model)

    @agent.tool_plain
    def files_read(path: str) -> str:
        with open(path, encoding="utf-8") as file:
            return file.read()

    agent.run_sync("Mend it.", usage_limits=UsageLimits(request_limit=10_000))


if __name__ == "__main__":
    serve(int(sys.argv[2])) if sys.argv[1] == "serve" else bare(sys.argv[2])
