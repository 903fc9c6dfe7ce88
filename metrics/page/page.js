// The page asks the daemon that it came from, and nobody else, and it only reads. Every text is put in as text.
"use strict";

const statusEvery = 2000, shown = 10 * 60 * 1000, askTimeout = 10000;
const $ = id => document.getElementById(id);

function el(name, attributes, ...children) {
  const e = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (value !== undefined && value !== false) e.setAttribute(key, value === true ? "" : value);
  }
  e.append(...children.flat().filter(c => c !== undefined && c !== null && c !== ""));
  return e;
}

// Numbers as the rest of the program writes them.
function scaled(v, step, units) {
  let i = 0;
  while (v >= step && i < units.length - 1) { v /= step; i++; }
  return (i === 0 || v >= 100 ? Math.round(v) : v.toFixed(1)) + units[i];
}
const bits = v => scaled(v, 1000, ["bit", "kbit", "mbit", "gbit", "tbit"]);
const bytes = v => scaled(v, 1024, ["B", "KiB", "MiB", "GiB", "TiB", "PiB"]);
// held is a configured rate to be read: exact where that is whole kilobits, else as others are.
function held(v) {
  if (v % 1000 !== 0) return bits(v);
  const units = ["bit", "kbit", "mbit", "gbit", "tbit"];
  let i = 0;
  while (v !== 0 && v % 1000 === 0 && i < units.length - 1) { v /= 1000; i++; }
  return v + units[i];
}
const number = v => v.toLocaleString("en");
const count = (n, one, many) => number(n) + " " + (n === 1 ? one : many || one + "s");
const clock = t => new Date(t).toLocaleTimeString([], { hour12: false });
function moment(t) {
  const d = new Date(t), two = n => String(n).padStart(2, "0");
  return d.getFullYear() + "-" + two(d.getMonth() + 1) + "-" + two(d.getDate()) + " " + two(d.getHours()) + ":" + two(d.getMinutes()) + ":" + two(d.getSeconds());
}
function span(ms) {
  const s = Math.max(0, Math.round(ms / 1000));
  if (s < 60) return s + "s";
  if (s < 3600) return Math.floor(s / 60) + "m" + (s < 600 && s % 60 ? s % 60 + "s" : "");
  if (s < 86400) return Math.floor(s / 3600) + "h" + (s % 3600 >= 60 ? Math.floor(s % 3600 / 60) + "m" : "");
  return Math.floor(s / 86400) + "d";
}

async function ask(path, headers) {
  const answer = await fetch(path, { headers, cache: "no-store", signal: AbortSignal.timeout(askTimeout) });
  if (answer.status === 304) return null;
  const value = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Error(value.error || answer.status + " " + answer.statusText);
  return { value, etag: answer.headers.get("ETag") };
}

// --- classes

const series = new Map(); // classid -> [[time, rate or null], ...]
const rows = new Map();   // classid -> row
const cells = ["now", "graph", "rate", "ceil", "sent", "dropped", "waiting", "borrowed", "destinations"];
const labels = { now: "sends now", rate: "rate", ceil: "ceil", sent: "sent", dropped: "dropped", waiting: "waiting", borrowed: "borrowed", destinations: "destinations" };
const last = new Map(); // classid -> dropped

function makeRow(id) {
  const row = { tr: el("tr"), name: document.createTextNode(""), id: el("span", { class: "id" }), tag: el("span", { class: "tag", hidden: true }), fill: el("i"), drawn: "" };
  row.tr.append(el("th", { scope: "row" }, row.name, row.id, row.tag));
  for (const cell of cells) {
    row[cell] = el("td", { class: cell === "graph" ? "graph" : "n", "data-label": labels[cell] });
    row.tr.append(row[cell]);
  }
  row.value = document.createTextNode("");
  row.now.append(row.value, el("span", { class: "bar" }, row.fill));
  row.canvas = el("canvas", { role: "img" });
  row.graph.append(row.canvas);
  rows.set(id, row);
  return row;
}

function set(node, text) { if (node.data !== undefined ? node.data !== text : node.textContent !== text) node.nodeType === 3 ? node.data = text : node.textContent = text; }

function showClasses(s, now) {
  const body = document.querySelector("#classes tbody");
  const overrides = new Map((s.overrides || []).map(o => [o.class, o]));
  const names = new Map(s.classes.map(c => [c.classid, c.name]));
  const seen = new Set();
  s.classes.forEach((c, i) => {
    const row = rows.get(c.classid) || makeRow(c.classid);
    seen.add(c.classid);
    if (body.children[i] !== row.tr) body.insertBefore(row.tr, body.children[i] || null);
    const above = names.get(c.parent), o = overrides.get(c.name);
    set(row.name, c.name);
    set(row.id, c.classid + (above ? ", below " + above : "") + (c.kind === "inner" ? ", sums up those below it" : ""));
    row.tag.hidden = !o;
    if (o) set(row.tag, "override until " + clock(o.until) + ", " + span(new Date(o.until) - now) + " left; configured " + held(o.configured_rate_bits_per_second));
    row.tr.className = c.standing ? "" : "missing";
    const sending = c.sending_bits_per_second;
    set(row.value, !c.standing ? "not there" : sending === undefined ? "–" : bits(sending));
    const share = sending === undefined ? 0 : Math.min(1, sending / c.rate_bits_per_second);
    row.fill.style.width = (100 * share).toFixed(1) + "%";
    row.fill.className = share > 0.95 ? "full" : "";
    set(row.rate, held(c.rate_bits_per_second));
    set(row.ceil, held(c.ceil_bits_per_second));
    set(row.sent, bytes(c.sent_bytes));
    set(row.dropped, number(c.dropped_packets));
    row.dropped.className = "n" + (last.has(c.classid) && c.dropped_packets > last.get(c.classid) ? " dropping" : "");
    last.set(c.classid, c.dropped_packets);
    set(row.waiting, bytes(c.backlog_bytes));
    set(row.borrowed, number(c.borrowed_packets));
    set(row.destinations, number(c.destinations));
    const points = series.get(c.classid) || [];
    series.set(c.classid, points);
    if (sending !== undefined || points.length) points.push([now, sending === undefined ? null : sending]);
    while (points.length && points[0][0] < now - shown) points.shift();
    draw(row, c, points, now);
  });
  for (const [id, row] of rows) {
    if (!seen.has(id)) { row.tr.remove(); rows.delete(id); series.delete(id); last.delete(id); }
  }
}

// draw is the line of what a class sent, under a line at its rate.
function draw(row, c, points, now) {
  const canvas = row.canvas, ratio = devicePixelRatio || 1;
  const w = Math.round(canvas.clientWidth * ratio), h = Math.round(canvas.clientHeight * ratio);
  if (!w || !h) return;
  if (canvas.width !== w || canvas.height !== h) { canvas.width = w; canvas.height = h; }
  const style = getComputedStyle(document.documentElement), colour = name => style.getPropertyValue(name).trim();
  const g = canvas.getContext("2d");
  const most = Math.max(c.rate_bits_per_second, ...points.map(p => p[1] || 0)) * 1.08;
  const x = t => w - (now - t) / shown * w, y = v => h - 1 - v / most * (h - 2);
  g.clearRect(0, 0, w, h);
  g.strokeStyle = colour("--line"); g.lineWidth = ratio; g.setLineDash([3 * ratio, 3 * ratio]);
  g.beginPath(); g.moveTo(0, y(c.rate_bits_per_second)); g.lineTo(w, y(c.rate_bits_per_second)); g.stroke();
  g.setLineDash([]);
  g.strokeStyle = colour("--accent"); g.fillStyle = colour("--fill"); g.lineWidth = 1.5 * ratio; g.lineJoin = "round";
  let from = 0;
  while (from < points.length) { // a gap parts the line
    while (from < points.length && points[from][1] === null) from++;
    let to = from;
    while (to < points.length && points[to][1] !== null) to++;
    if (to > from) {
      g.beginPath();
      for (let i = from; i < to; i++) g.lineTo(x(points[i][0]), y(points[i][1]));
      g.stroke();
      g.lineTo(x(points[to - 1][0]), h); g.lineTo(x(points[from][0]), h); g.fill();
    }
    from = to;
  }
  const peak = Math.max(0, ...points.map(p => p[1] || 0));
  const label = c.name + ": at most " + bits(peak) + " in " + span(points.length ? now - points[0][0] : 0);
  if (row.drawn !== label) { row.drawn = label; canvas.setAttribute("aria-label", label); canvas.title = label; }
}

// --- what is wrong, or out of the ordinary

let noticed = "";
function showNotices(s, now) {
  const list = [];
  if (!s.in_sync) list.push(["bad", "The kernel is not as wanted: " + (s.reason || "the reason is not known")]);
  if (!s.interface_up) list.push(["bad", (s.interface_missing ? "There is no interface " + s.interface : s.interface + " is down") + "."]);
  if (s.unconfirmed && !(s.reason || "").includes(s.unconfirmed)) list.push(["bad", "Not confirmed: " + s.unconfirmed]);
  if (s.contended) list.push(["bad", "Somebody keeps changing the shaping, so repairs are spaced out" + contention(s)]);
  if (s.overrides_error) list.push(["bad", "The overrides cannot be followed: " + s.overrides_error]);
  if (s.history_error) list.push(["", "The history is not kept over a restart of the daemon: " + s.history_error]);
  const r = s.last_reload;
  if (r && r.result === "failure") list.push(["bad", "The files are refused since " + moment(r.time) + "; the last good ones stay in force.", r.problems]);
  for (const o of s.overrides || []) {
    list.push(["", "Override: " + o.class + " is held to " + held(o.rate_bits_per_second) + (o.ceil_bits_per_second !== o.rate_bits_per_second ? ", ceil " + held(o.ceil_bits_per_second) : "") +
      " until " + moment(o.until) + (o.by ? ", by " + o.by : "") + (o.why ? ": " + o.why : "") + ". Configured is " + held(o.configured_rate_bits_per_second) + "."]);
  }
  if (s.foreign && s.foreign.length) list.push(["", "Not ours, and left alone:", s.foreign]);
  for (const hint of s.hints || []) list.push(["", hint]);
  if (s.direct_packets) list.push(["", count(s.direct_packets, "packet") + " went past all classes."]);
  const text = JSON.stringify(list);
  if (text === noticed) return;
  noticed = text;
  $("notices").replaceChildren(...list.map(([kind, line, items]) =>
    el("div", { class: "notice " + kind }, line, items && items.length ? el("ul", {}, items.map(i => el("li", {}, i))) : "")));
}

// contention is since when, what and who.
function contention(s) {
  const c = s.contention;
  if (!c) return ".";
  let text = ": " + count(c.repairs, "repair") + " since " + clock(c.since);
  if (c.objects.length) text += ", of " + c.objects.map(o => o.object + (o.why ? ": " + o.why : "") + (o.times > 1 ? (o.why_varied ? " (that is the last of " : " (") + o.times + " times)" : "")).join("; ");
  if (c.ends) text += "; ends by itself at " + clock(c.ends) + " if nothing has to be repaired until then";
  if (c.by.length) text += "; changed by " + c.by.join(", ");
  const known = c.objects.find(o => o.remedy);
  return text + ". " + (known ? "To end it: " + known.remedy : "Stop what changes it") + ", or stop this daemon and clear " + s.interface + ".";
}

function showState(s, now) {
  document.title = (s.in_sync ? "" : "! ") + s.node + " – bulkshaper";
  set($("node"), s.node || s.interface);
  set($("where"), s.interface + ", cabinet " + (s.cabinet || "unknown"));
  const r = s.last_reload;
  let text = s.in_sync ? "in sync" : "NOT IN SYNC";
  text += ", " + count(s.inventory_servers, "server");
  if (s.last_reload_success) text += ", inventory read " + span(now - new Date(s.last_reload_success)) + " ago";
  if (r && r.result === "success" && r.operations) text += ", which took " + count(r.operations, "operation");
  else if (r && r.result === "success" && r.start && s.in_sync) text += ", all stood already";
  set($("state"), text);
  $("state").className = "state " + (s.in_sync ? "good" : "bad");
}

let warned = "";
function showWarnings(s) {
  const list = s.warnings || [], total = s.warnings_total || list.length, key = total + JSON.stringify(list);
  if (key === warned) return;
  warned = key;
  $("warnings-section").hidden = !list.length;
  set($("warnings-title"), "Warnings of the inventory (" + number(total) + ")");
  $("warnings").replaceChildren(...list.map(w => el("li", {}, w)),
    ...(total > list.length ? [el("li", { class: "quiet" }, "and " + number(total - list.length) + " more: run bulkshaper check")] : []));
}

// --- where the kernel counts what filters match

function showTop(s) {
  const list = s.top_destinations || [];
  $("top-section").hidden = !list.length;
  document.querySelector("#top tbody").replaceChildren(...list.map(m => el("tr", {}, el("td", {}, m.prefix), el("td", {}, m.server || "–"), el("td", {}, m.class),
    el("td", { class: "n" }, number(Math.round(m.packets / m.seconds))))));
}

// --- what happened

let tag = null;
async function showEvents() {
  const answer = await ask("api/v1/history", tag ? { "If-None-Match": tag } : {});
  if (!answer) return;
  tag = answer.etag;
  const open = new Set([...document.querySelectorAll("#events details[open]")].map(d => d.dataset.key));
  const events = answer.value.events;
  $("events").replaceChildren(...(events.length ? events.map(e => eventItem(e, open)) : [el("li", { class: "quiet" }, "nothing yet")]));
}

function eventItem(e, open) {
  const head = [el("time", { datetime: e.time }, moment(e.time)), el("span", { class: "kind" }, e.kind), e.why];
  const more = [];
  for (const f of e.files || []) more.push(el("li", {}, f));
  if (e.files_more) more.push(el("li", { class: "quiet" }, "and " + count(e.files_more, "file") + " more"));
  if (e.error) more.push(el("li", { class: "bad" }, e.error));
  for (const p of e.problems || []) more.push(el("li", { class: "bad" }, p));
  if (e.rebuild) more.push(el("li", { class: "bad" }, "the root qdisc was set up again: " + e.rebuild));
  for (const o of e.operations || []) {
    more.push(el("li", {}, o.verb + " " + count(o.count, o.object, o.object === "class" ? "classes" : o.object + "s"),
      el("ul", {}, o.examples.map(x => el("li", {}, x.object + (x.class ? " (" + x.class + ")" : "") + ": " + x.why)),
        o.count > o.examples.length ? el("li", { class: "quiet" }, "and " + number(o.count - o.examples.length) + " more") : "")));
  }
  if ((e.operations || []).length) more.push(el("li", { class: e.hitless ? "quiet" : "bad" }, (e.hitless ? "no packet felt it" : "NOT HITLESS") + ", took " + (1000 * e.took_seconds).toFixed(1) + " ms"));
  const kind = { class: e.result === "failure" ? "failure" : "" };
  if (!more.length) return el("li", kind, head);
  const key = e.time + e.kind;
  return el("li", kind, el("details", { "data-key": key, open: open.has(key) }, el("summary", {}, head), el("ul", {}, more)));
}

// --- search

let asking = 0;
async function find() {
  const text = $("asked").value.trim(), mine = ++asking;
  history.replaceState(null, "", text ? "#" + encodeURIComponent(text) : location.pathname + location.search);
  if (!text) { $("found").replaceChildren(); return; }
  let answer;
  try {
    answer = (await ask("api/v1/explain?dest=" + encodeURIComponent(text))).value;
  } catch (err) {
    if (mine === asking) $("found").replaceChildren(el("p", { class: "notice bad" }, "No answer: " + err.message));
    return;
  }
  if (mine !== asking) return; // typed on in the meantime
  const parts = answer.answers.map(answerBox);
  if (answer.matches.length) {
    parts.push(el("div", { class: "scroll", tabindex: "0" }, el("table", { id: "matches" },
      el("thead", {}, el("tr", {}, ["destination", "server", "rule", "class"].map(h => el("th", { scope: "col" }, h)))),
      el("tbody", {}, answer.matches.map(m => el("tr", {}, el("td", {}, el("a", { href: "#" + encodeURIComponent(m.prefix) }, m.prefix)), el("td", {}, m.server || "–"),
        el("td", {}, m.rule || "none, the default"), el("td", {}, m.class + " " + m.classid)))))));
    if (answer.matches_total > answer.matches.length) parts.push(el("p", { class: "quiet" }, number(answer.matches_total) + " match; these are the first " + answer.matches.length + "."));
  }
  if (!parts.length) parts.push(el("p", {}, "Nothing is called that, and it is no address."));
  $("found").replaceChildren(...parts);
}

function answerBox(a) {
  const owner = a.server ? a.server + ", cabinet " + (a.cabinet || "unknown") + (a.roles.length ? ", roles " + a.roles.join(" ") : ", no roles") : "nobody in the inventory";
  if (a.own) return el("div", { class: "answer" }, el("p", {}, el("strong", {}, a.address), " is this node's own and has no class."));
  return el("div", { class: "answer" },
    el("p", {}, el("strong", {}, a.address), " gets ", el("strong", {}, a.class), " (" + a.classid + ")"),
    el("p", {}, "It belongs to " + owner + "."),
    a.tried.length ? el("ol", {}, a.tried.map(t => el("li", { class: "quiet" }, "rule " + t.rule + " does not match: " + t.reason))) : "",
    el("p", {}, a.rule ? "Rule " + a.rule + " matches" + (a.tried.length ? "." : ", the first of all.") : "No rule matches, so it gets the default class."));
}

async function showRules() {
  const answer = (await ask("api/v1/rules")).value, rules = answer.rules;
  set($("version"), "bulkshaper " + answer.version);
  $("rules").replaceChildren(...rules.map(r => el("li", {}, r.matches + " → ", el("strong", {}, r.class), r.name && r.name !== r.class ? el("span", { class: "quiet" }, " (" + r.name + ")") : "")));
}

// --- the round

let answered = null, reloaded = "";
async function round() {
  try {
    const s = (await ask("api/v1/status?warnings=50")).value, now = Date.now();
    answered = now;
    showState(s, now); showNotices(s, now); showClasses(s, now); showTop(s); showWarnings(s);
    const reload = JSON.stringify(s.last_reload) + s.node;
    if (reload !== reloaded) { await showRules(); reloaded = reload; }
    await showEvents();
  } catch (err) {
    set($("state"), "no answer" + (answered ? " since " + clock(answered) : "") + ": " + err.message + "; what is below is old");
    $("state").className = "state bad";
    document.title = "! bulkshaper does not answer";
  }
}

async function begin() {
  try {
    const recent = (await ask("api/v1/rates")).value, times = recent.times.map(t => new Date(t).getTime()), oldest = Date.now() - shown;
    for (const c of recent.classes) series.set(c.classid, c.bits_per_second.map((v, i) => [times[i], v]).filter(p => p[0] >= oldest));
  } catch { /* the graphs begin empty */ }
  for (;;) {
    if (!document.hidden) await round();
    await new Promise(done => setTimeout(done, statusEvery));
  }
}

let typed;
$("asked").addEventListener("input", () => { clearTimeout(typed); typed = setTimeout(find, 200); });
$("search").addEventListener("submit", e => { e.preventDefault(); clearTimeout(typed); find(); });
addEventListener("keydown", e => {
  if (e.key === "/" && document.activeElement !== $("asked") && !e.ctrlKey && !e.metaKey && !e.altKey) { e.preventDefault(); $("asked").focus(); $("asked").select(); }
  if (e.key === "Escape" && document.activeElement === $("asked")) { $("asked").value = ""; find(); }
});
function fromAddress() {
  const text = decodeURIComponent(location.hash.slice(1));
  if (text !== $("asked").value) { $("asked").value = text; find(); }
}
addEventListener("hashchange", fromAddress);
document.addEventListener("visibilitychange", () => { if (!document.hidden) round(); });
fromAddress();
begin();
