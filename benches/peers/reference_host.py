"""The reference host (connectonion) serving a scripted agent, for comparison and for captures.

    python reference_host.py --dir FOLDER --port 8000 [--trust open] [--plain] [--tuned]

The agent is a real connectonion Agent and only its model is scripted: it answers the same prompt words as
this project's demo agent, as far as benchmarks and captures need them. No key and no network are used: the
relay is off, and FOLDER is both the project and the home folder, so nothing of the user's is read or written.

`--plain` leaves out the approval plugin, whose permission map (90 entries) rides in every copy of the session
that goes over the wire, and the agent's own log files: parallel sessions that say the same thing fail over its
record of evaluations. Benchmarks use it, so that they compare the same turns.

`--tuned` drops what is not the protocol's cost: the recovery phrase beside the key (its presence costs a key
derivation at every admin check) and the console lines. Benchmarks name both variants.
"""

import argparse
import os
import time
from pathlib import Path

TEXT_UNICODE = "h\u00e9llo \u4e16\u754c \U0001f680 \u2028 \\ \" </script> end"


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--dir", type=Path, required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--trust", default="open")
    parser.add_argument("--plain", action="store_true")
    parser.add_argument("--tuned", action="store_true")
    return parser.parse_args()


def isolate(folder: Path):
    """Make FOLDER the working and home folder, before connectonion is imported and looks at either."""
    co = folder / ".co"
    co.mkdir(parents=True, exist_ok=True)
    os.environ["HOME"] = str(folder.resolve())
    for name in [name for name in os.environ if name.endswith("_API_KEY") or name.startswith("CONNECTONION")]:
        del os.environ[name]
    os.chdir(folder)
    config = co / "host.yaml"
    if not config.exists():
        config.write_text(
            "name: stub-agent\n"
            "permissions:\n"
            "  echo_tool:\n"
            "    allowed: true\n"
            "    source: config\n"
            "    reason: benchmark\n"
            "    expires: {type: never}\n",
            encoding="utf-8",
        )


def echo_tool(text: str) -> str:
    """Return the text."""
    return f"echo: {text}"


def danger(target: str, count: int = 1) -> str:
    """Pretend to change a target. Always needs approval."""
    return f"danger ran on {target} x{count}"


def slow_step(i: int) -> str:
    """Take one second."""
    time.sleep(1)
    return f"step {i} ok"


def always_fails() -> str:
    """Fail."""
    raise RuntimeError("expected failure: \u00e5\u222b")


def make_agent_factory():
    """A function that makes one agent per request, as the reference recommends."""
    from connectonion import Agent
    from connectonion.core.llm import LLM, LLMResponse, ToolCall
    from connectonion.core.usage import TokenUsage
    from connectonion.core.events import after_user_input
    from connectonion.useful_plugins import full_access, runtime_input, tool_approval, ui_stream
    from connectonion.useful_plugins.runtime_input import RUNTIME_INPUT_FRAME_PREFIX as ADDED
    from connectonion.useful_tools.ask_user import ask_user

    @after_user_input
    def allow_harmless(agent):
        """Let the turn loop, and only it, run two tools without asking: they are not on the EXEC whitelist."""
        for name in ("slow_step", "always_fails"):
            agent.current_session.setdefault("permissions", {})[name] = {
                "allowed": True, "source": "config", "reason": "harmless", "expires": {"type": "never"},
            }

    class Scripted(LLM):
        """A model that reads the last prompt's first word and the tool results after it."""

        model = "stub/scripted-1"
        agent = None

        def structured_complete(self, messages, output_schema, **kwargs):
            raise NotImplementedError("the scripted model has no structured answers")

        def complete(self, messages, tools=None, **kwargs):
            prompt, results, added, calls_so_far = self.turn(messages)
            word, _, rest = prompt.partition(" ")
            number = int(rest) if rest.strip().isdigit() else None

            def text(content):
                return self.answer(content, [])

            def call(name, arguments):
                return self.answer(None, [ToolCall(name, arguments, f"call_{calls_so_far + 1}")])

            if word == "boom":
                raise RuntimeError("the model exploded")
            if word == "unicode":
                return text(TEXT_UNICODE)
            if word == "big":
                return text("x" * 1024 * (number or 1))
            if word == "stream":
                for i in range(number or 1):
                    self.agent.io.log("thinking", content=f"{i:0100d}")
                return text(f"streamed {number or 1}")
            if word == "slow":
                steps = number or 4
                if len(results) < steps:
                    return call("slow_step", {"i": len(results)})
                return text(f"slow finished after {steps} steps" + "".join(f"; also: {a}" for a in added))
            if word == "approve":
                if not results:
                    summary = "Touch the production target"
                    return call("danger", {"target": "prod", "count": 2, "summary": summary})
                return text(f"danger said: {results[-1][:120]}")
            if word == "ask":
                if not results:
                    options = ["red", "bl\u00e5", "\u7eff"]
                    return call("ask_user", {"question": "Which colour?", "options": options})
                return text(f"You picked: {results[-1]}")
            if word == "missing":
                return text("tool was missing") if results else call("no_such_tool", {"x": 1})
            if word == "fail":
                return text("tool failed") if results else call("always_fails", {})
            return text(f"Hello! You said: {prompt}")

        def turn(self, messages):
            """The turn's prompt, its tool results, input added meanwhile, and the session's number of calls."""
            prompt, results, added, calls = "", [], [], 0
            for message in messages:
                if message["role"] == "user":
                    content = message["content"]
                    said = content if isinstance(content, str) else content[0].get("text", "")
                    if said.startswith(ADDED):
                        added.append(said.removeprefix(ADDED))
                    else:
                        prompt, results, added = said, [], []
                elif message["role"] == "tool":
                    results.append(str(message["content"]))
                calls += len(message.get("tool_calls") or [])
            return prompt, results, added, calls

        def answer(self, content, calls):
            usage = TokenUsage(input_tokens=42, output_tokens=11, cost=0.0001)
            return LLMResponse(content=content, tool_calls=calls, raw_response=None, usage=usage)

    def make_agent(quiet, plain):
        model = Scripted()
        bare = {"log": False}
        approving = {"plugins": [tool_approval, full_access, runtime_input, ui_stream], "on_events": [allow_harmless]}
        agent = Agent(
            "stub-agent",
            llm=model,
            system_prompt="You are a scripted agent.",
            tools=[echo_tool, danger, slow_step, always_fails, ask_user],
            quiet=quiet,
            **(bare if plain else approving),
        )
        model.agent = agent
        return agent

    return make_agent


def main():
    options = arguments()
    isolate(options.dir)
    co = Path(".co").resolve()

    import connectonion
    from connectonion import address

    if address.load(co) is None:
        address.save(address.generate(), co)
    make_agent = make_agent_factory()
    if options.tuned:
        (co / "keys" / "recovery.txt").unlink(missing_ok=True)
        from rich.console import Console

        Console.print = lambda *_, **__: None

    connectonion.host(
        lambda: make_agent(quiet=options.tuned, plain=options.plain),
        port=options.port,
        trust=options.trust,
        relay_url=None,
        co_dir=co,
    )


if __name__ == "__main__":
    main()
