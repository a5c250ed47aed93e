"""The client that the attach protocol's description gives, with its path and words as arguments.

Usage: seed_attach_client.py SOCKET WORDS   prints each answer as one JSON line
"""
import json, socket, sys
path, words = sys.argv[1:]
token = open(path.replace(".sock", ".token")).read().strip()
s = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM); s.connect(path)
def call(method, params=None, i=1):
    s.sendall(json.dumps({"jsonrpc":"2.0","id":i,"method":method,
                          "params":params or {}}).encode() + b"\n")
    buf = b""
    while b"\n" not in buf: buf += s.recv(65536)
    print(json.dumps(json.loads(buf.split(b"\n")[0])))
call("initialize", {"authToken": token})
call("session/prompt", {"prompt": [{"type":"text","text":words}]}, i=2)
