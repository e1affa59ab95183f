"""An agent that prints a hundred lines a second, with a command in another session beside it.

On SIGUSR1 it prints the marker, its task and the time on its clock. Run as `python -I -S`: twenty start together.
"""

import json
import os
import signal
import time

LINES_PER_SECOND = 100
MARKER = "MARKER"


def line(**message: object) -> bytes:
    """Print one line of the stream."""
    return json.dumps(message).encode() + b"\n"


def said(**block: object) -> bytes:
    """Return a line of the model."""
    return line(type="assistant", message={"model": "talker", "content": [block]})


CONVERSATION = (
    line(type="stream_event", event={"type": "content_block_delta", "delta": {"text": "a few words"}}),
    said(type="text", text="What a model says between two calls of its tools. " * 8),
    said(type="tool_use", id="toolu_1", name="Bash", input={"command": "pytest -q"}),
    line(type="user", message={"content": [{"type": "tool_result", "content": "tests/test_a.py ....\n" * 50}]}),
)


def say_marker(*_: object) -> None:
    """Interrupt the conversation for one line."""
    os.write(1, said(type="text", text=f"{MARKER} {os.environ['ORCHESTRATOR_TASK']} {time.monotonic_ns()}"))


def talk() -> None:
    """Print endlessly."""
    signal.signal(signal.SIGUSR1, say_marker)
    os.posix_spawn("/bin/sleep", ["sleep", "infinity"], os.environ, setsid=True)
    os.write(1, line(type="system", subtype="init", session_id=os.environ["ORCHESTRATOR_SESSION_ID"], model="talker"))
    while True:
        for words in CONVERSATION:
            os.write(1, words)
            time.sleep(1 / LINES_PER_SECOND)


if __name__ == "__main__":
    talk()
