#!/usr/bin/env python3
"""Writes seeds for the fuzz targets from the captures of real agents: python3 fuzz/seed.py

The first bytes of a seed are the decisions that lead a property to read the rest as it is; see tests/src/cases.
"""

import hashlib
import json
import pathlib

ROOT = pathlib.Path(__file__).resolve().parent
CAPTURES = ROOT.parent / "tests" / "fixtures" / "acp"
TARGETS = ["acp_agent", "acp_client", "acp_pair", "attach_caller", "attach_server", "chat", "control_client"]
TARGETS += ["control_server", "control_world", "lines", "one_pass", "reverse_acceptor", "reverse_agent", "reverse_pair"]
TARGETS += ["rpc", "trace"]
FILES = {
    "manifest": [{"id": "mine", "name": "Mine", "command": "~/agent", "args": ["--acp"], "env": {"KEY": "value"}}, []],
    "presence": [{"peer_id": "proj-7f", "name": "proj", "pid": 4711, "cwd": "/w", "updated_at": 1764460800.5}, {}],
    "registry": [{"version": "1.0.0", "agents": [{"id": "a", "name": "A", "version": "1", "description": "d",
                 "distribution": {"npx": {"package": "@a/b"}}}]}, {"agents": 1}],
    "settings": [{"agents": {"gemini": {"enabled": False, "env": ["GEMINI_API_KEY"]}}, "defaultAgent": "gemini"}, 7],
}
LONGEST = 1500  # bytes of a line, so that seeds stay small
RUN = 2500  # bytes of a run


def lines(direction):
    """The distinct short lines that went one way, by capture."""
    for path in sorted(CAPTURES.glob("*.ndjson")):
        run = []
        for entry in path.read_text(encoding="utf-8").splitlines():
            entry = json.loads(entry)
            line = entry["line"]
            if entry["dir"] == direction and len(line) <= LONGEST and not line.startswith("<"):
                run.append(line.encode("utf-8", "replace"))
        yield run


def shape(line):
    """What makes a line like another one."""
    try:
        message = json.loads(line)
    except ValueError:
        return line[:20]
    if not isinstance(message, dict):
        return line[:20]
    params = message.get("params")
    update = params.get("update") if isinstance(params, dict) else None
    kind = sorted(update) if isinstance(update, dict) else sorted(params) if isinstance(params, dict) else params
    return json.dumps([sorted(message), message.get("method"), kind, (update or {}).get("sessionUpdate")])


def write(target, prefix, data):
    folder = ROOT / "corpus" / target
    folder.mkdir(parents=True, exist_ok=True)
    data = bytes(prefix) + data
    (folder / hashlib.sha1(data).hexdigest()).write_bytes(data)


def main():
    for direction, target in [("out", "acp_client"), ("in", "acp_agent")]:
        seen = set()
        for run in lines(direction):
            stream = b""
            for line in run:
                if shape(line) not in seen:
                    seen.add(shape(line))
                    write("rpc", [3], line)
                    write("one_pass", [5], line)
                    write("lines", [5, 0, 3], line + b"\r\n" + line[:40] + b"\n")
                if len(stream) + len(line) < RUN:
                    stream += line + b"\n"
            write(target, [2, 0, 0, 0, 0, 0], stream)
    for number in range(24):
        noise = b"".join(hashlib.sha256(b"%d %d" % (number, part)).digest() for part in range(10))
        for target in TARGETS:
            write(target, [], noise)
    files()


def files():
    """What is read from files: a good one, an odd one, and decisions by chance."""
    for target, examples in FILES.items():
        for example in examples:
            text = json.dumps(example).encode()
            length = [] if target == "presence" else len(text).to_bytes(4, "little")
            write(target, [2, *length], text)
    rules = json.dumps({"rules": [{"kind": "execute", "command": "git", "then": "allow"}]}).encode()
    project = json.dumps({"permissions": {"rules": [{"path": "src", "then": "ask"}]}}).encode()
    write("rules", [3, len(rules)], rules + bytes([3, len(project)]) + project)
    for number in range(24):
        noise = b"".join(hashlib.sha256(b"file %d %d" % (number, part)).digest() for part in range(8))
        for target in [*FILES, "records", "rules"]:
            write(target, [], noise)


main()
