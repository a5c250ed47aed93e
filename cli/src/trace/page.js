
"use strict";
// Everything that a peer has said is put on the page by textContent only.
(() => {
  const source = document.getElementById("data");
  const data = JSON.parse(source.textContent);
  source.remove();
  const { rows, spans, lines, kinds, sessions } = data;
  const [LINE, T, DIR, KIND, LINK, SESSION, TITLE, TEXT, TOOK, WAITED, BAD] = Array(11).keys();
  const [WHAT, FIRST, LAST, CLOSED, LABEL, STATUS, FAILED, OURS, OF] = Array(9).keys();
  const HEIGHT = 28, HEAD = 34, TALLEST = 6e6, LANES = { app: 6, machine: 37, peer: 95 };
  const find = (id) => document.getElementById(id);
  const [scroll, space, stage, list, detail, map, query, only, found, pick] =
    ["scroll", "space", "stage", "rows", "detail", "map", "query", "only", "found", "session"].map(find);

  // What would be obeyed instead of shown, or shown elsewhere, is named.
  const OBEYED = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb]/g;
  const shown = (text) => String(text).replace(OBEYED, (c) => "‹" + c.codePointAt(0).toString(16).padStart(4, "0") + "›");
  const make = (tag, name, text) => {
    const made = document.createElement(tag);
    if (name) made.className = name;
    if (text !== undefined) made.textContent = shown(text);
    return made;
  };
  const put = (element, style) => { Object.assign(element.style, style); return element; };
  const hue = (kind) => `var(--${kind})`;
  const lasting = (micros) => {
    if (micros < 1000) return `${micros} µs`;
    if (micros < 1e6) return `${(micros / 1e3).toFixed(micros < 1e4 ? 1 : 0)} ms`;
    if (micros < 6e7) return `${(micros / 1e6).toFixed(micros < 1e7 ? 1 : 0)} s`;
    const minutes = Math.floor(micros / 6e7);
    return minutes < 60 ? `${minutes} min ${Math.floor(micros / 1e6) % 60} s` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
  };
  const seconds = (micros) => (micros / 1e6).toFixed(3);
  const wall = (millis) => {
    const date = new Date(millis);
    return isNaN(date) ? "" : date.toISOString().replace("T", " ").replace("Z", " UTC");
  };
  const count = (number, one, many = one + "s") => `${number.toLocaleString("en")} ${number === 1 ? one : many}`;

  // Which way the arrow of each direction points. Without one it is about the machine alone.
  const WAYS = {
    cmd: ["app", "machine"], event: ["machine", "app"], refused: ["machine", "app"], end: ["machine", "app"],
    out: ["machine", "peer"], in: ["peer", "machine"], err: ["peer", "machine", "thin"], act: ["machine", "peer", "thin"],
    opened: ["peer", "machine", "thin"], open_failed: ["peer", "machine", "thin"], written: ["peer", "machine", "thin"],
    write_failed: ["peer", "machine", "thin"], eof: ["peer", "machine", "thin"], exit: ["peer", "machine", "thin"],
    group: ["peer", "machine", "thin"],
  };
  const hidden = new Set(data.hidden);
  const turns = spans.filter((span) => span[WHAT] === "turn");
  const turnAt = new Map(turns.map((turn, at) => [turn[FIRST], at]));
  const links = new Set(rows.map((row) => row[LINK]).filter((link) => link !== null)).size;
  const end = rows.length ? rows[rows.length - 1][T] : 0;
  // Blocks that last at the same time stand side by side.
  const blocks = spans.filter((span) => span[WHAT] === "tool" || span[WHAT] === "permission");
  let columns = [];
  for (const block of blocks) {
    if (columns.every((last) => last < block[FIRST])) columns = [];
    let at = columns.findIndex((last) => last < block[FIRST]);
    if (at < 0) at = columns.length < 4 ? columns.push(-1) - 1 : 3;
    columns[at] = Math.max(columns[at], block[LAST]);
    Object.assign(block, { column: at, columns });
  }

  // What is listed: rows, the heads of turns, and waits. `from` is the first item of each row or of one after it.
  let items = [], from = new Int32Array(1), hits = [], hitAt = -1, chosen = -1, pattern = null;
  const wanted = (row) => !hidden.has(row[KIND]) && (pick.value === "" || String(row[SESSION]) === pick.value);
  const matches = (row) => pattern.test(row[TITLE]) || pattern.test(row[TEXT]) || pattern.test(lines[row[LINE]]);

  function choose() {
    items = [];
    hits = [];
    from = new Int32Array(rows.length + 1);
    let before = 0;
    for (let at = 0; at < rows.length; at++) {
      const row = rows[at];
      from[at] = items.length;
      const turn = turnAt.get(at);
      const listed = wanted(row);
      const hit = listed && pattern !== null && matches(row);
      if (listed && !(pattern && only.checked && !hit)) {
        if (row[WAITED] !== null || row[T] - before > 5e5) items.push({ wait: row[T] - before, why: row[WAITED], row: at });
        if (turn !== undefined) items.push({ turn, row: at });
        if (hit) hits.push(items.length);
        items.push({ row: at, hit, new: row[T] !== before || at === 0 });
        before = row[T];
      }
    }
    from[rows.length] = items.length;
    hitAt = -1;
    found.textContent = pattern ? (hits.length ? count(hits.length, "match", "matches") : "no match") : "";
    resize();
  }

  const room = () => Math.max(scroll.clientHeight - HEAD, HEIGHT);
  const total = () => items.length * HEIGHT + HEIGHT;
  const place = () => {
    const [reach, goes] = [space.offsetHeight - scroll.clientHeight, total() - room()];
    return reach > 0 && goes > 0 ? scroll.scrollTop / reach * goes : 0;
  };
  function go(item) {
    const [reach, goes] = [space.offsetHeight - scroll.clientHeight, total() - room()];
    const top = Math.min(Math.max(item * HEIGHT - room() / 3, 0), Math.max(goes, 0));
    scroll.scrollTop = goes > 0 ? top / goes * reach : 0;
    draw();
  }
  function resize() {
    stage.style.height = scroll.clientHeight + "px";
    space.style.height = Math.min(total() + HEAD, Math.max(TALLEST, scroll.clientHeight * 2)) + "px";
    draw();
  }

  function label(row, from, to) {
    const said = put(make("div", "said"), { left: from + "%", width: to - from + "%" });
    if (links > 1 && row[LINK] !== null) said.append(make("i", "tag", `link ${row[LINK]}`), " ");
    const title = make("b", "", row[TITLE]);
    if (row[BAD]) title.style.color = "var(--bad)";
    said.append(title);
    if (row[TEXT]) said.append(make("span", "", row[TEXT]));
    if (row[TOOK]) said.append(make("em", "", `after ${lasting(row[TOOK])}`));
    return said;
  }
  function rowOf(item, top) {
    const row = rows[item.row];
    const element = put(make("div", "row"), { top: top + "px" });
    element.dataset.row = item.row;
    element.id = "row-" + item.row;
    element.setAttribute("role", "option");
    element.setAttribute("aria-selected", item.row === chosen);
    element.classList.toggle("hit", item.hit);
    element.classList.toggle("chosen", item.row === chosen);
    if (item.new) element.append(make("div", "time", seconds(row[T])));
    const drawing = put(make("div", "draw"), {});
    drawing.style.setProperty("--hue", row[BAD] ? "var(--bad)" : hue(row[KIND]));
    const way = WAYS[row[DIR]];
    if (way) {
      const [start, stop] = [LANES[way[0]], LANES[way[1]]];
      const arrow = make("div", `arrow ${start < stop ? "right" : "left"} ${way[2] || ""}`);
      put(arrow, { left: `calc(${Math.min(start, stop)}% + 5px)`, width: `calc(${Math.abs(stop - start)}% - 9px)` });
      drawing.append(arrow, label(row, Math.min(start, stop), Math.max(start, stop)));
    } else {
      drawing.append(put(make("div", "dot"), { left: LANES.machine + "%" }), label(row, LANES.machine + 1, LANES.peer));
    }
    element.append(drawing);
    return element;
  }
  function headOf(item, top) {
    const turn = turns[item.turn];
    const element = put(make("div", turn[FAILED] ? "head bad" : "head", `Turn ${item.turn + 1}`), { top: top + "px" });
    const took = lasting(rows[turn[LAST]][T] - rows[turn[FIRST]][T]);
    element.append(make("em", "", turn[CLOSED] ? `${took} · ${turn[STATUS] || "answered"}` : `${took} and no end`), make("em", "", turn[LABEL]));
    return element;
  }
  function waitOf(item, top) {
    const element = put(make("div", "wait"), { top: top + "px" }), said = make("span", "", lasting(item.wait));
    if (item.why) said.append(make("em", "", `waited for ${item.why}`));
    element.append(said);
    return element;
  }

  // What lasts, where it reaches into the part that is seen.
  function lasts(first, after, top) {
    const parts = [];
    const width = find("side").clientWidth - 20;
    for (const span of spans) {
      const [start, stop] = [from[span[FIRST]], from[span[LAST] + 1]];
      if (stop <= first || start >= after || stop <= start) continue;
      if (pick.value !== "" && span[OF] !== null && String(span[OF]) !== pick.value) continue;
      const y = start * HEIGHT - top, height = (stop - start) * HEIGHT;
      if (span[WHAT] === "tool" || span[WHAT] === "permission") {
        const block = make("div", span[CLOSED] ? "block" : "block open");
        const some = span.columns.length, wide = width / some;
        put(block, { top: y + 2 + "px", height: height - 4 + "px", right: 10 + (some - 1 - span.column) * wide + "px", width: wide - 4 + "px" });
        block.style.setProperty("--hue", span[FAILED] ? "var(--bad)" : hue(span[WHAT]));
        block.dataset.row = span[FIRST];
        const took = span[CLOSED] ? lasting(rows[span[LAST]][T] - rows[span[FIRST]][T]) : "no end";
        block.title = shown(`${span[LABEL]}\n${span[STATUS]} ${took}`);
        const name = make("div", "", span[LABEL]);
        // The name stays in sight while any of the block does.
        if (y < 0) name.style.marginTop = Math.min(-y, height - 26) + "px";
        block.append(name);
        if (height > 40) block.append(make("small", "", [span[STATUS], took].filter(Boolean).join(" · ")));
        parts.push(block);
      } else if (span[WHAT] === "turn") {
        parts.push(put(make("div", "band"), { top: y + "px", height: height + "px" }));
      }
    }
    return parts;
  }
  function bars(first, after, top) {
    const lanes = make("div", "lanes");
    for (const lane of Object.values(LANES)) lanes.append(put(make("i"), { left: lane + "%" }));
    for (const span of spans) {
      const [start, stop] = [from[span[FIRST]], from[span[LAST] + 1]];
      if (span[WHAT] === "tool" || stop <= first || start >= after || stop - start < 2) continue;
      const lane = span[WHAT] === "hold" ? LANES.machine : span[OURS] ? LANES.app : LANES.peer;
      const bar = make("div", "act " + span[WHAT]);
      lanes.append(put(bar, { left: lane + "%", top: start * HEIGHT + 20 - top + "px", height: (stop - start - 1) * HEIGHT + 8 + "px" }));
    }
    return lanes;
  }

  let asked = false;
  function later() {
    if (!asked) requestAnimationFrame(() => { asked = false; draw(); });
    asked = true;
  }
  function draw() {
    const top = place();
    const first = Math.max(Math.floor(top / HEIGHT) - 2, 0);
    const after = Math.min(Math.ceil((top + room()) / HEIGHT) + 2, items.length);
    const drawn = document.createDocumentFragment();
    const laid = lasts(first, after, top);
    drawn.append(...laid.filter((part) => part.className === "band"), bars(first, after, top));
    for (let at = first; at < after; at++) {
      const item = items[at], y = at * HEIGHT - top;
      drawn.append(item.turn !== undefined ? headOf(item, y) : item.wait !== undefined ? waitOf(item, y) : rowOf(item, y));
    }
    drawn.append(...laid.filter((part) => part.className !== "band"));
    if (!items.length) drawn.append(make("p", "empty", rows.length ? "Nothing of this is shown. Choose other kinds, or another session." : "The trace holds its header only."));
    list.replaceChildren(drawn);
    drawMap(first, after);
  }

  function drawMap(first, after) {
    const scale = window.devicePixelRatio || 1, wide = map.clientWidth, high = 48;
    if (map.width !== Math.round(wide * scale)) map.width = Math.round(wide * scale);
    map.height = high * scale;
    const pen = map.getContext("2d");
    const ink = (name) => { map.style.color = `var(--${name})`; return getComputedStyle(map).color; };
    const x = (micros) => 6 + (end ? micros / end : 0) * (wide - 12);
    pen.scale(scale, scale);
    const bar = (span, y, height, name, alpha) => {
      const start = x(rows[span[FIRST]][T]), stop = x(rows[span[LAST]][T]);
      pen.globalAlpha = alpha;
      pen.fillStyle = ink(name);
      pen.beginPath();
      pen.roundRect(start, y, Math.max(stop - start, 2), height, 2);
      pen.fill();
    };
    for (const turn of turns) bar(turn, 4, 40, turn[FAILED] ? "bad" : "turn", 0.13);
    if (!drawMap.dense || drawMap.dense.length !== Math.floor(wide)) {
      drawMap.dense = new Uint32Array(Math.max(Math.floor(wide), 1));
      for (const row of rows) drawMap.dense[Math.min(Math.floor(x(row[T])), drawMap.dense.length - 1)]++;
      drawMap.most = drawMap.dense.reduce((most, some) => Math.max(most, some), 1);
    }
    pen.globalAlpha = 0.55;
    pen.fillStyle = ink("message");
    drawMap.dense.forEach((some, at) => {
      const tall = some ? Math.max(2, 22 * Math.log1p(some) / Math.log1p(drawMap.most)) : 0;
      pen.fillRect(at, 44 - tall, 1, tall);
    });
    for (const block of blocks) {
      bar(block, block[WHAT] === "tool" ? 7 : 14, 5, block[FAILED] ? "bad" : block[WHAT], 0.95);
    }
    for (const span of spans) if (span[WHAT] === "hold") bar(span, 40, 4, "hold", 0.9);
    const seen = items.slice(first, after).filter((item) => item.wait === undefined);
    if (seen.length) {
      const [start, stop] = [x(rows[seen[0].row][T]), x(rows[seen[seen.length - 1].row][T])];
      pen.globalAlpha = 0.9;
      pen.strokeStyle = ink("accent");
      pen.lineWidth = 1.5;
      pen.strokeRect(start - 2, 2, Math.max(stop - start, 2) + 4, 44);
    }
  }

  function open(at) {
    chosen = at;
    const row = rows[at];
    const head = make("h2", "", row[TITLE]);
    const close = make("button", "", "×");
    close.type = "button";
    close.title = "Close (Esc)";
    close.addEventListener("click", shut);
    head.append(close);
    head.style.setProperty("--hue", row[BAD] ? "var(--bad)" : hue(row[KIND]));
    const facts = make("dl");
    const fact = (name, value) => { if (value !== null && value !== "") facts.append(make("dt", "", name), make("dd", "", value)); };
    fact("kind", row[KIND]);
    fact("direction", row[DIR] && (WAYS[row[DIR]] || []).slice(0, 2).join(" → ") || row[DIR]);
    fact("time", `${seconds(row[T])} s  ${wall(data.start + row[T] / 1000)}`);
    fact("answers after", row[TOOK] === null ? null : lasting(row[TOOK]));
    fact("session", row[SESSION] === null ? null : sessions[row[SESSION]]);
    fact("link", row[LINK]);
    fact("line", row[LINE]);
    detail.replaceChildren(head, facts);
    const raw = lines[row[LINE]];
    const inner = within(raw);
    if (inner !== null) section("What was said", inner);
    section("The line of the trace", raw);
    detail.hidden = false;
    detail.scrollTop = 0;
    scroll.setAttribute("aria-activedescendant", "row-" + at);
    history.replaceState(null, "", "#row=" + at);
    resize();
  }
  // The message or value of a record, laid out.
  function within(raw) {
    const laid = (value) => JSON.stringify(value, null, 2);
    try {
      const record = JSON.parse(raw);
      const bytes = record.line ?? record.text;
      if (bytes === undefined) return record.value === undefined ? null : laid(record.value);
      return bytes.split("\n").filter(Boolean).map((line) => { try { return laid(JSON.parse(line)); } catch { return line; } }).join("\n");
    } catch { return null; }
  }
  function section(name, text) {
    const MOST = 20000;
    const body = make("pre", "", text.slice(0, MOST));
    detail.append(make("h3", "", name), body);
    if (text.length <= MOST) return;
    const more = make("button", "more", `Show all ${count(text.length, "character")}`);
    more.type = "button";
    more.addEventListener("click", () => { body.textContent = shown(text); more.remove(); });
    detail.append(more);
  }
  function shut() {
    chosen = -1;
    detail.hidden = true;
    history.replaceState(null, "", location.pathname + location.search);
    resize();
    scroll.focus();
  }
  function step(by) {
    let at = chosen < 0 ? Math.floor(place() / HEIGHT) - by : from[chosen + 1] - 1;
    do at += by; while (items[at] && (items[at].wait !== undefined || items[at].turn !== undefined));
    if (!items[at]) return;
    open(items[at].row);
    const y = at * HEIGHT - place();
    if (y < 0 || y > room() - HEIGHT) go(at);
  }
  function nextHit(by) {
    if (!hits.length) return;
    hitAt = (hitAt + by + hits.length) % hits.length;
    found.textContent = `${hitAt + 1} of ${count(hits.length, "match", "matches")}`;
    open(items[hits[hitAt]].row);
    go(hits[hitAt]);
  }
  function nextTurn(by) {
    const here = chosen >= 0 ? from[chosen] : Math.ceil((place() + room() / 3) / HEIGHT);
    const heads = turns.map((turn) => from[turn[FIRST]]).filter((at) => by > 0 ? at > here + 1 : at < here - 1);
    if (heads.length) { chosen = -1; detail.hidden = true; resize(); go(by > 0 ? heads[0] : heads[heads.length - 1]); }
  }
  function search() {
    const text = query.value;
    pattern = text === "" ? null : new RegExp(text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"), "i");
    choose();
  }
  function theme() {
    const root = document.documentElement;
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
    draw();
  }

  // The page's own parts.
  document.title = shown(data.name) + " · agentline trace";
  find("name").textContent = shown(data.name);
  find("facts").textContent = [
    shown(`${data.channel} ${data.role}`), wall(data.start),
    lasting(end), count(rows.length, "row"), turns.length && count(turns.length, "turn"),
    blocks.length && `${count(blocks.filter((block) => block[WHAT] === "tool").length, "tool call")}, ${count(blocks.filter((block) => block[WHAT] === "permission").length, "question")}`,
    sessions.length > 1 && count(sessions.length, "session"),
  ].filter(Boolean).join("  ·  ");
  const buttons = new Map();
  const counts = Object.fromEntries(kinds.map((kind) => [kind, 0]));
  for (const row of rows) counts[row[KIND]]++;
  for (const kind of kinds.filter((kind) => counts[kind])) {
    const button = make("button", "", kind);
    button.type = "button";
    button.style.setProperty("--hue", hue(kind));
    button.append(make("i", "", counts[kind].toLocaleString("en")));
    button.title = "Show or hide; with Alt this kind alone";
    const pressed = () => { for (const [kind, button] of buttons) button.setAttribute("aria-pressed", !hidden.has(kind)); };
    button.addEventListener("click", (event) => {
      if (event.altKey) {
        for (const other of kinds) hidden.add(other);
        hidden.delete(kind);
      } else if (!hidden.delete(kind)) hidden.add(kind);
      pressed();
      choose();
    });
    button.setAttribute("aria-pressed", !hidden.has(kind));
    find("kinds").append(button);
    buttons.set(kind, button);
  }
  pick.append(new Option("all sessions", ""), ...sessions.map((session, at) => new Option(shown(session), String(at))));
  pick.hidden = sessions.length < 2;
  pick.addEventListener("change", choose);
  let typed = 0;
  query.addEventListener("input", () => { clearTimeout(typed); typed = setTimeout(search, 150); });
  query.addEventListener("keydown", (event) => {
    if (event.key === "Enter") { clearTimeout(typed); const stale = hitAt < 0; if (stale) search(); nextHit(event.shiftKey ? -1 : 1); }
    if (event.key === "Escape") { query.value = ""; search(); scroll.focus(); }
    event.stopPropagation();
  });
  only.addEventListener("change", choose);
  find("theme").addEventListener("click", theme);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  scroll.addEventListener("scroll", later, { passive: true });
  new ResizeObserver(resize).observe(scroll);
  list.addEventListener("click", (event) => {
    const at = event.target.closest("[data-row]");
    if (at && String(getSelection()) === "") open(Number(at.dataset.row));
  });
  const seek = (event) => {
    const micros = (event.offsetX - 6) / Math.max(map.clientWidth - 12, 1) * end;
    const at = items.findIndex((item) => rows[item.row][T] >= micros);
    go(at < 0 ? items.length : at);
  };
  map.addEventListener("pointerdown", (event) => { map.setPointerCapture(event.pointerId); seek(event); });
  map.addEventListener("pointermove", (event) => { if (event.buttons) seek(event); });
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|SELECT)$/.test(event.target.tagName)) return;
    const keys = {
      "/": () => query.focus(), t: theme, Escape: shut, j: () => step(1), ArrowDown: () => step(1), k: () => step(-1),
      ArrowUp: () => step(-1), n: () => nextHit(1), N: () => nextHit(-1), "]": () => nextTurn(1), "[": () => nextTurn(-1),
    };
    if (!keys[event.key]) return;
    event.preventDefault();
    keys[event.key]();
  });

  // A link may name a row and words: #row=12 or #find=words.
  const hash = new URLSearchParams(location.hash.slice(1));
  if (/^(light|dark)$/.test(hash.get("theme"))) document.documentElement.dataset.theme = hash.get("theme");
  query.value = hash.get("find") || "";
  search();
  const row = Number(hash.get("row") ?? -1);
  if (rows[row]) { open(row); go(from[row]); }
  document.documentElement.dataset.ready = rows.length;
})();

