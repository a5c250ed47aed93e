#!/usr/bin/env python3
"""Counts what agents say in the captures of tests/fixtures/acp, by kind and file.

    python3 tests/scripts/count_events.py > tests/fixtures/acp.counts.json

It shares nothing with the code that it judges. Kinds:

    update.TAG            a session/update of that kind
    unknown_session       one of a session that was not opened by this client: a fork of another one
    permission            a session/request_permission
    request.METHOD        any other request
    notification.METHOD   any other notification
    response              an answer, with a result or an error, that names a request
    complaint             an error that names none
    stop.REASON           among the responses: the end of a turn, of prompts on an open session, one at a time
    stop.error            the same, by an error
    bad_line              no message
"""

import collections
import json
import pathlib
import sys

CAPTURES = pathlib.Path(__file__).resolve().parent.parent / "fixtures" / "acp"


def is_remark(line):
    return line.startswith("<") and line.endswith(">")


def message(line):
    """The line as an object with a meaning, or None."""
    try:
        value = json.loads(line)
    except ValueError:
        return None
    if not isinstance(value, dict):
        return None
    if "method" in value or "result" in value or "error" in value:
        return value
    return None


def kind(message):
    if message is None:
        return "bad_line"
    method = message.get("method")
    if method is None:
        return "complaint" if message.get("id") is None else "response"
    if "id" in message:
        return "permission" if method == "session/request_permission" else "request." + method
    if method == "session/update":
        return "update." + message["params"]["update"]["sessionUpdate"]
    return "notification." + method


def is_known(session, sessions, opening):
    """Whether a client would know that session; a new one may speak before its id is told."""
    return session in sessions or session in opening.values() or None in opening.values()


def count(lines):
    counts = collections.Counter()
    sessions = set()  # that were opened in this run
    opening = {}  # id of the request → session, None for a new one
    closing = {}  # id of the request → session
    prompts = {}  # session → id of its open prompt
    greeting = None  # id of the first initialize; what came before it no client of ours would have sent
    for entry in lines:
        line, direction = entry["line"], entry["dir"]
        if direction == "err":
            continue
        if is_remark(line):
            if line.startswith("<EXIT"):
                sessions, opening, closing, prompts, greeting = set(), {}, {}, {}, None
            continue
        said = message(line)
        if direction == "out":
            heard = kind(said)
            if heard.startswith("update.") and not is_known(said["params"]["sessionId"], sessions, opening):
                heard = "unknown_session"
            counts[heard] += 1
        if said is None or said.get("id") is None:
            continue
        name, params = json.dumps(said["id"]), said.get("params") or {}
        if direction == "in":
            session = params.get("sessionId") if isinstance(params, dict) else None
            method = said.get("method")
            if greeting is None:
                greeting = name if method == "initialize" else None
            elif method == "session/new":
                opening[name] = None
            elif method in ("session/load", "session/resume"):
                opening[name] = session
            elif method == "session/close":
                closing[name] = session
            elif method == "session/prompt" and session in sessions and session not in prompts:
                prompts[session] = name
        elif "method" not in said:
            if name in opening:
                session = opening.pop(name)
                if "result" in said:
                    sessions.add(session or said["result"]["sessionId"])
            if name in closing and "result" in said:
                sessions.discard(closing[name])
            for session, prompt in list(prompts.items()):
                if prompt == name:
                    del prompts[session]
                    counts["stop." + (said["result"]["stopReason"] if "result" in said else "error")] += 1
    return dict(sorted(counts.items()))


def main():
    counts = {}
    for path in sorted(CAPTURES.glob("*.ndjson")):
        lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
        counts[path.stem] = count(lines)
    json.dump(counts, sys.stdout, indent=1, sort_keys=True)
    print()


main()
