#!/usr/bin/env python3
"""Run the REAL agentica.cli.attach.AttachServer + agentica.peers.PeerSession with a small fake host.

  $AGENTLINE_INTEROP/py/bin/python attach_server.py [--turn 0.3] [--start-delay 0.05] [--grace 600] [--settle 1.0]
        [--home DIR] [--peer-id ID] [--session-id SID] [--answer TEXT] [--inject auto|queued|steered|none|raise]
        [--no-presence] [--echo-answer] [--log FILE]

Prints ONE JSON line when it serves:
  {"ok":true,"socket":..,"token_file":..,"presence":..,"peer_id":..,"session_id":..,"cache_dir":..,"pid":..}
then runs until stdin EOF.  While it runs, a line on stdin is a host command:
  turn S        set the turn length for the next turns     answer TEXT  set the answer text
  sid TEXT|-    change the session id ("-" = none)         busy S       start a turn of S seconds by "the keyboard"
  nostart 1|0   queued text never starts a turn            rebind DIR   publish another cwd
"""
import argparse, json, os, sys, tempfile, threading, time

ap = argparse.ArgumentParser()
ap.add_argument("--turn", type=float, default=0.3)
ap.add_argument("--start-delay", type=float, default=0.05)
ap.add_argument("--grace", type=float, default=600.0)
ap.add_argument("--settle", type=float, default=1.0)
ap.add_argument("--home", default=None)
ap.add_argument("--attach-dir", default=None)
ap.add_argument("--peer-id", default=None)
ap.add_argument("--session-id", default="sess-0001")
ap.add_argument("--answer", default="PONG")
ap.add_argument("--echo-answer", action="store_true", help="the answer is 'echo: <text>'")
ap.add_argument("--inject", default="auto", choices=["auto", "queued", "steered", "none", "raise"])
ap.add_argument("--no-presence", action="store_true")
ap.add_argument("--log", default=None)
a = ap.parse_args()

home = a.home or tempfile.mkdtemp(prefix="agpeer-")
os.environ["AGENTICA_HOME"] = home
os.environ.setdefault("AGENTICA_CACHE_DIR", os.path.join(home, "cache"))
os.environ["AGENTICA_ATTACH_DIR"] = a.attach_dir or os.path.join(home, "at")

real_stdout = os.dup(1)
os.dup2(2, 1)          # anything the library prints goes to stderr
from agentica.cli.attach import AttachServer   # noqa: E402
from agentica import peers                     # noqa: E402

lock = threading.Lock()
S = {"running_until": 0.0, "start_at": None, "queue": [], "turn": a.turn, "answer": a.answer,
     "sid": a.session_id, "nostart": False, "last": None}
log = open(a.log, "a") if a.log else None


def note(**kw):
    if log:
        log.write(json.dumps({"t": round(time.monotonic(), 3), **kw}, ensure_ascii=False) + "\n"); log.flush()


def is_running():
    now = time.monotonic()
    with lock:
        if now < S["running_until"]:
            return True
        if S["queue"] and not S["nostart"]:
            if S["start_at"] is None:
                S["start_at"] = now + a.start_delay
            if now >= S["start_at"]:
                S["last"] = S["queue"].pop(0)
                S["start_at"] = None
                S["running_until"] = now + S["turn"]
                return True
        return False


def pump():
    while True:
        is_running(); time.sleep(0.005)


def inject(text):
    note(inject=text)
    if a.inject == "raise":
        raise RuntimeError("host refused")
    if a.inject == "none":
        return ""
    busy = is_running()
    if a.inject == "steered" or (a.inject == "auto" and busy):
        with lock:
            S["last"] = text
        return "steered"
    with lock:
        S["queue"].append(text)
    return "queued"


def cancel():
    note(cancel=True)
    with lock:
        S["running_until"] = 0.0
        S["queue"].clear()


def answer():
    return f"echo: {S['last']}" if a.echo_answer else S["answer"]


peer = None
if not a.no_presence:
    peer = peers.PeerSession(peer_id=a.peer_id, session_id=a.session_id, cwd=os.getcwd(),
                             profile_name="fake", model_provider="fake", model_name="fake-1")
    peer.publish()
peer_id = peer.peer_id if peer else (a.peer_id or peers.new_peer_id())
srv = AttachServer(peer_id, inject=inject, is_running=is_running, session_id=lambda: S["sid"],
                   snapshot=lambda: {"cwd": os.getcwd(), "busy": is_running()},
                   cancel=cancel, answer=answer, grace=a.grace, settle=a.settle)
ok = srv.start()
if ok and peer:
    peer.publish(attach_socket=str(srv.path))
threading.Thread(target=pump, daemon=True).start()
os.write(real_stdout, (json.dumps({"ok": ok, "socket": str(srv.path), "token_file": str(srv.token_file),
          "presence": str(peer.path) if peer else None, "peer_id": peer_id, "session_id": S["sid"],
          "cache_dir": os.environ["AGENTICA_CACHE_DIR"], "pid": os.getpid()}) + "\n").encode())
try:
    for line in sys.stdin:
        c, _, v = line.strip().partition(" ")
        with lock:
            if c == "turn": S["turn"] = float(v)
            elif c == "answer": S["answer"] = v
            elif c == "sid": S["sid"] = None if v == "-" else v
            elif c == "busy": S["running_until"] = time.monotonic() + float(v)
            elif c == "nostart": S["nostart"] = v == "1"
        if c == "rebind" and peer: peer.rebind(v)
        if peer: peer.heartbeat(busy=is_running())
finally:
    srv.stop()
    if peer: peer.unpublish()
