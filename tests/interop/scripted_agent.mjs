#!/usr/bin/env node
// Scripted ACP agent on the real TypeScript SDK (0.25.1).  Behaviour is picked by --mode or by the prompt text:
//   say TEXT | stop REASON | perm | chunks N | think | sleep MS | env REGEX | cwd | ignore-eof | die CODE | rpcerr | hang
// --interop DIR names the folder of setup.sh where the environment does not reach (the Python SDK passes six variables only).
// Flags: --no-session-id, --slow-init MS, --trap-term, --child (spawn a grandchild sleep), --raw-noise (junk line on stdout)
import { createRequire } from "node:module"; import { pathToFileURL } from "node:url"; import path from "node:path";
import { Readable, Writable } from "node:stream"; import { spawn } from "node:child_process"; import fs from "node:fs";
const here = path.dirname(new URL(import.meta.url).pathname);
const req = createRequire(path.join((process.argv.includes("--interop") ? process.argv[process.argv.indexOf("--interop") + 1] : process.env.AGENTLINE_INTEROP) ?? path.join(here, "installed"), "sdk025", "package.json"));
const { AgentSideConnection, ndJsonStream, PROTOCOL_VERSION } = await import(pathToFileURL(req.resolve("@agentclientprotocol/sdk")).href);
const argv = process.argv.slice(2), has = (f) => argv.includes(f), val = (f, d) => (has(f) ? argv[argv.indexOf(f) + 1] : d);
const log = (...x) => { if (val("--log")) fs.appendFileSync(val("--log"), JSON.stringify([Date.now(), ...x]) + "\n"); };
if (has("--trap-term")) process.on("SIGTERM", () => log("SIGTERM ignored"));
if (has("--child")) { const c = spawn(process.execPath, ["-e", "setInterval(() => {}, 1e3)", "--", val("--mark", "grandchild")], { stdio: "ignore" }); log("child", c.pid); }
if (has("--ignore-eof")) setInterval(() => {}, 1000);
process.stdin.on("end", () => log("stdin EOF"));
process.on("exit", (c) => log("exit", c));
log("start", process.pid, process.cwd());
let sessions = 0;
const sleep = (ms) => new Promise((r) => setTimeout(r, ms));
const mk = (conn) => {
  const pend = new Map();
  return {
    async initialize(p) { log("initialize", p); await sleep(Number(val("--slow-init", 0))); if (has("--raw-noise")) process.stdout.write("this is not json\n"); return { protocolVersion: PROTOCOL_VERSION, agentCapabilities: { loadSession: false }, agentInfo: { name: "scripted", version: "1" } }; },
    async newSession(p) { log("newSession", p); return has("--no-session-id") ? {} : { sessionId: `s-${process.pid}-${++sessions}` }; },
    async authenticate() { return {}; },
    async setSessionMode() { return {}; },
    async prompt(p) {
      log("prompt", p);
      const text = val("--mode") ?? p.prompt.map((b) => b.text ?? "").join("");
      const [c, ...r] = text.split(" "), rest = r.join(" ");
      const say = (t) => conn.sessionUpdate({ sessionId: p.sessionId, update: { sessionUpdate: "agent_message_chunk", content: { type: "text", text: t } } });
      let cancelled = false; const cp = new Promise((res) => pend.set(p.sessionId, () => { cancelled = true; res(); }));
      if (c === "say") await say(rest);
      else if (c === "chunks") for (let i = 0; i < Number(rest); i++) await say(`c${i} `);
      else if (c === "stop") { await say("partial"); return { stopReason: rest }; }
      else if (c === "think") { await conn.sessionUpdate({ sessionId: p.sessionId, update: { sessionUpdate: "agent_thought_chunk", content: { type: "text", text: "thinking" } } }); await say("done"); }
      else if (c === "perm") {
        const o = await conn.requestPermission({ sessionId: p.sessionId, toolCall: { toolCallId: "t1", title: "edit" }, options: (rest || "reject_once,allow_always,allow_once").split(",").map((k, i) => ({ optionId: `${k}-${i}`, name: k, kind: k })) });
        log("permission", o); await say(JSON.stringify(o));
      } else if (c === "sleep") await Promise.race([sleep(Number(rest)), cp]);
      else if (c === "hang") await new Promise(() => {});
      else if (c === "env") await say(JSON.stringify(Object.entries(process.env).filter(([k]) => new RegExp(rest || ".", "i").test(k)).map(([k, v]) => `${k}=${v}`).sort()));
      else if (c === "cwd") await say(process.cwd());
      else if (c === "die") { await say("bye"); await sleep(50); process.exit(Number(rest || 3)); }
      else if (c === "rpcerr") throw new Error("boom");
      else await say("echo: " + text);
      return { stopReason: cancelled ? "cancelled" : "end_turn" };
    },
    async cancel(p) { log("cancel", p); pend.get(p.sessionId)?.(); },
  };
};
new AgentSideConnection(mk, ndJsonStream(Writable.toWeb(process.stdout), Readable.toWeb(process.stdin)));
