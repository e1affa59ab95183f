"""A gateway to Jira: a server of the Model Context Protocol, on the pipes of its own process.

    python gateway_server.py FOLDER [MISHAP]

FOLDER/tickets.json holds the results of jira_read_ticket by key; received changes go to FOLDER/told.jsonl, its pid and
those of its children to FOLDER/pids, the names of its variables to FOLDER/variables.
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

Json = dict[str, Any]

ERRORS = {
    "ERR-1": {"error": "AUTH_FAILED", "message": "check JIRA_API_TOKEN", "recoverable": False},
    "ERR-2": {"error": "NOT_FOUND", "message": "resource not found"},
    "ERR-3": {"error": "SENSITIVE_CONTENT_BLOCKED", "detected_patterns": ["private_key_pem", "\x1b[2J"]},
    "ERR-4": {"error": "INTERNAL_ERROR", "message": "status 502"},
    "ERR-5": {"error": "INVALID_ARG", "message": "ticket_id is required"},
}
TOOLS = ("jira_read_ticket", "jira_read_comments", "jira_add_comment", "jira_update_status", "jira_think")
LITTER = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(1000)"


def main() -> None:
    folder, mishap = Path(sys.argv[1]), "".join(sys.argv[2:])
    (folder / "variables").write_text("\n".join(sorted(os.environ)))
    pids = [os.getpid()]
    if mishap in {"litter", "deaf"}:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        pids += [
            subprocess.Popen([sys.executable, "-c", LITTER], start_new_session=apart).pid for apart in (False, True)
        ]
    (folder / "pids").write_text(" ".join(map(str, pids)))
    for line in sys.stdin:
        message = json.loads(line)
        if "id" in message:
            answer = answered(folder, mishap, message)
            say(json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer}))
    while mishap == "deaf":
        time.sleep(1000)


def say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def answered(folder: Path, mishap: str, message: Json) -> Json:
    match message["method"], mishap:
        case "initialize", "mute":
            time.sleep(1000)
        case "initialize", _:
            version, info = message["params"]["protocolVersion"], {"name": "gateway", "version": "1"}
            return {"result": {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}}
        case "tools/call", "silent" | "deaf":
            time.sleep(1000)
        case "tools/call", "dies":
            sys.stderr.write("no route to jira, token = hunter2hunter2\n")
            sys.exit(3)
        case "tools/call", "junk":
            say('starting …\n{"jsonrpc": 7}\n[]\n\x1b[2J')
        case "tools/call", "flood":
            return {"result": {"content": [{"type": "text", "text": "x" * 5 * 1024 * 1024}]}}
        case "tools/call", "endless":
            while True:
                sys.stdout.write("x" * 1024 * 1024)
        case "tools/list", _:
            return {"result": {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in TOOLS]}}
        case "tools/call", "strange":
            return {"result": {"content": [{"type": "text", "text": "all is well"}]}}
        case "tools/call", _:
            pass
        case _:
            return {"error": {"code": -32601, "message": "no such method"}}
    return called(folder, message["params"]["name"], message["params"]["arguments"])


def called(folder: Path, tool: str, arguments: Json) -> Json:
    key, told = arguments["ticket_id"], folder / "told.jsonl"
    match tool:
        case _ if key in ERRORS:
            return {"result": {"isError": True, "content": [{"type": "text", "text": json.dumps(ERRORS[key])}]}}
        case "jira_read_ticket":
            return structured(json.loads((folder / "tickets.json").read_text())[key])
        case "jira_think":
            time.sleep(1000)
            return {}
        case "jira_read_comments":
            said = [json.loads(line) for line in told.read_text().splitlines()] if told.exists() else []
            return structured({"comments": [{"author": "Robot", "body": one["body"]} for one in said if "body" in one]})
        case "jira_add_comment" | "jira_update_status":
            with told.open("a") as file:
                file.write(json.dumps(arguments) + "\n")
            return structured({"ok": True, "ticket_id": key})
        case _:
            return {"error": {"code": -32602, "message": f"unknown tool {tool}"}}


def structured(answer: Json) -> Json:
    text = {"type": "text", "text": json.dumps(answer)}
    return {"result": {"content": [text], "structuredContent": answer}}


if __name__ == "__main__":
    main()
