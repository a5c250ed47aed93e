// ts_sdk2_client.mjs --cwd DIR --prompt TEXT [--deny] [--cancel-after MS] -- CMD...   client on @agentclientprotocol/sdk 2.4.0 (app/builder API)
import { createRequire } from "node:module"; import { pathToFileURL } from "node:url"; import path from "node:path"; import { Readable, Writable } from "node:stream"; import { spawn } from "node:child_process";
const here = path.dirname(new URL(import.meta.url).pathname), req = createRequire(path.join(process.env.AGENTLINE_INTEROP ?? path.join(here, "installed"), "sdk24", "package.json"));
const acp = await import(pathToFileURL(req.resolve("@agentclientprotocol/sdk")).href), M = acp.methods;
const a = process.argv.slice(2), o = { cwd: process.cwd(), prompt: "hello" }; let cmd = [];
for (let i = 0; i < a.length; i++) { if (a[i] === "--") { cmd = a.slice(i + 1); break; } if (a[i] === "--deny") o.deny = true; else if (a[i] === "--cwd") o.cwd = a[++i]; else if (a[i] === "--prompt") o.prompt = a[++i]; else if (a[i] === "--cancel-after") o.cancel = Number(a[++i]); }
const t0 = performance.now(), ch = spawn(cmd[0], cmd.slice(1), { cwd: o.cwd, stdio: ["pipe", "pipe", "inherit"] }), out = [], kinds = [], perms = [];
ch.on("error", (e) => { console.log(JSON.stringify({ error: e.message })); process.exit(1); });
const app = acp.client({ name: "ts-sdk2" });
app.onNotification(M.client.session.update, ({ params: p }) => { kinds.push(p.update.sessionUpdate); if (p.update.sessionUpdate === "agent_message_chunk" && p.update.content.type === "text") out.push(p.update.content.text); });
app.onRequest(M.client.session.requestPermission, ({ params: p }) => { perms.push(p.options.map((x) => x.kind)); const k = p.options.find((x) => x.kind.startsWith("allow")); return { outcome: o.deny || !k ? { outcome: "cancelled" } : { outcome: "selected", optionId: k.optionId } }; });
try {
  await app.connectWith(acp.ndJsonStream(Writable.toWeb(ch.stdin), Readable.toWeb(ch.stdout)), async (ctx) => {
    const i = await ctx.request(M.agent.initialize, { protocolVersion: acp.PROTOCOL_VERSION, clientCapabilities: {} });
    const s = await ctx.request(M.agent.session.new, { cwd: o.cwd, mcpServers: [] });
    if (o.cancel !== undefined) setTimeout(() => ctx.notify(M.agent.session.cancel, { sessionId: s.sessionId }), o.cancel);
    const r = await ctx.request(M.agent.session.prompt, { sessionId: s.sessionId, prompt: [{ type: "text", text: o.prompt }] });
    console.log(JSON.stringify({ sdk: "2.4.0", maxMessageBytes: acp.DEFAULT_MAX_MESSAGE_BYTES, agent: i.agentInfo?.name, protocolVersion: i.protocolVersion, sessionId: s.sessionId, output: out.join(""), stopReason: r.stopReason, updates: kinds, permissions: perms, ms: Math.round(performance.now() - t0) }));
  });
} catch (e) { console.log(JSON.stringify({ sdk: "2.4.0", error: e?.message ?? String(e), code: e?.code, data: e?.data })); process.exitCode = 1; }
ch.kill(); setTimeout(() => process.exit(), 50);
