#!/usr/bin/env bash
# Installs the published peers, pinned, into a folder: setup.sh DIR. What is there already is kept.
#   DIR/sdk025  @agentclientprotocol/sdk 0.25.1 (scripted_agent.mjs)
#   DIR/sdk24   the same, 2.4.0 (ts_sdk2_client.mjs)
#   DIR/py      agent-client-protocol 0.12.1 (py_sdk_client.py), agentica 1.5.0 (attach_server.py)
set -euo pipefail
mkdir -p "$1"
cd "$1"

sdk() {
  [ -d "$1/node_modules/@agentclientprotocol/sdk" ] && return
  mkdir -p "$1"
  echo '{"private":true,"type":"module"}' > "$1/package.json"
  npm --prefix "$1" install --no-audit --no-fund --ignore-scripts --loglevel=error "@agentclientprotocol/sdk@$2" zod
}

sdk sdk025 0.25.1
sdk sdk24 2.4.0
if ! py/bin/python -c 'import acp, agentica' 2>/dev/null; then
  python3 -m venv --clear py
  py/bin/pip install --quiet --disable-pip-version-check agent-client-protocol==0.12.1 agentica==1.5.0
fi
