"""Drives the reference client's RemoteAgent, as told by a JSON scenario in the first argument.

The scenario: {directory, host, seed, sealed, steps}. `directory` is the relay's URL, `host` the address to
reach, `seed` the caller's key in hex (null: no key), `sealed` whether connections offer a seal as the client
is shipped. Each step is {do, ...}; see STEPS. Every line printed is one JSON object:
{"event": frame} for each frame that the client streams, while it runs, and {"step": n, ...} for each step's result.
"""

import json
import sys
import threading
import time

import nacl.signing
from connectonion import connect
from connectonion.network.connect import RemoteAgent

# How long a step may take, in seconds.
PATIENCE = 30

scenario = json.loads(sys.argv[1])
printing = threading.Lock()


def say(**line):
    """Print one line, whole even when two threads speak."""
    with printing:
        print(json.dumps(line), flush=True)


class Watch:
    """Lets one thread wait for an event that another one's client gets."""

    def __init__(self):
        self.seen = set()
        self.changed = threading.Condition()

    def note(self, event):
        with self.changed:
            self.seen.add(event.get("type"))
            self.changed.notify_all()

    def wait_for(self, kind):
        with self.changed:
            if not self.changed.wait_for(lambda: kind in self.seen, PATIENCE):
                raise TimeoutError(f"no {kind} came")


watch = Watch()
handle = RemoteAgent._handle_stream_event
build_connect = RemoteAgent._build_connect_message
# Another process of the same person may have connected in this second.
last_connect = int(time.time())


def handle_and_tell(self, event):
    handle(self, event)
    say(event=event)
    watch.note(event)


def build_and_remember(self, *args, **kwargs):
    global last_connect
    last_connect = int(time.time())
    return build_connect(self, *args, **kwargs)


def await_a_new_second():
    """The client's CONNECT has a clock of whole seconds and no nonce, so two of them within one second are
    the same bytes, and the second is a replay. A person does not connect twice in a second; a script does."""
    while int(time.time()) == last_connect:
        time.sleep(0.01)


async def no_seal(self, ws):
    return None


RemoteAgent._handle_stream_event = handle_and_tell
RemoteAgent._build_connect_message = build_and_remember
if not scenario["sealed"]:
    RemoteAgent._offer_seal = no_seal


def keys():
    if scenario["seed"] is None:
        return False
    key = nacl.signing.SigningKey(bytes.fromhex(scenario["seed"]))
    return {"address": "0x" + bytes(key.verify_key).hex(), "signing_key": key}


def new_agent():
    return connect(scenario["host"], keys=keys(), relay_url=scenario["directory"])


def session_of(agent):
    session = agent.current_session or {}
    return {
        "session": agent._known_session_id(),
        "turn": session.get("turn"),
        "mode": session.get("mode"),
        "prompts": [m["content"] for m in session.get("messages", []) if m["role"] == "user"],
        "status": agent.status,
    }


def do_input(agent, step):
    response = agent.input(step["prompt"], timeout=step.get("timeout", PATIENCE))
    return {"text": response.text, "done": response.done, **session_of(agent)}


def do_call(agent, step):
    result = agent.call(step["tool"], timeout=PATIENCE, **step["args"])
    return {"text": result.text, "status": result.status, "ok": result.ok, "error": result.error}


def do_stop(agent, step):
    return {"stopped": agent.stop(), **session_of(agent)}


def do_input_and_stop(agent, step):
    """input() in one thread; when an event of the type `after` came, stop() in this one."""
    watch.seen.clear()
    outcome = {}

    def run():
        outcome.update(attempt(do_input, agent, step))

    turn = threading.Thread(target=run, daemon=True)
    turn.start()
    watch.wait_for(step["after"])
    outcome["stopped"] = agent.stop()
    turn.join(PATIENCE)
    outcome["returned"] = not turn.is_alive()
    return outcome


def do_mode(agent, step):
    agent.set_session_mode(step["mode"])
    return session_of(agent)


STEPS = {
    "input": do_input,
    "call": do_call,
    "stop": do_stop,
    "input_and_stop": do_input_and_stop,
    "mode": do_mode,
}


def attempt(do, agent, step):
    """The step's result, or the exception as {raised: [the names of its classes], message}."""
    try:
        return do(agent, step)
    except Exception as error:
        return {"raised": [kind.__name__ for kind in type(error).__mro__], "message": str(error)}


agent = new_agent()
for number, step in enumerate(scenario["steps"]):
    if step["do"] == "another":
        # Another client of the same person that goes on with the session.
        session = agent._known_session_id()
        agent = new_agent()
        agent._session_id = session
        continue
    if not scenario["sealed"]:
        await_a_new_second()
    say(step=number, **attempt(STEPS[step["do"]], agent, step))
