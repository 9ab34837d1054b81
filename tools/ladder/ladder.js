// SPDX-License-Identifier: BSD-3-Clause
//
// Draws the ladder of a connection. What comes from the recording becomes text nodes and nothing else. Only
// rows that can be seen are in the document; for the printer, more.
"use strict";
(() => {
  const kRow = 34, kBeyond = 12, kPrinted = 2000, kListed = 500;
  const byId = (id) => document.getElementById(id);
  const data = JSON.parse(byId("data").textContent);
  const packets = data.packets, count = packets.time.length;
  const ladder = byId("ladder");
  let shown = []; // numbers of packets that are in the ladder
  let current = 0; // in `shown`
  let drawn = "";

  const kMarks = {
    request: ["request", "triangle"], response: ["response", "open"], acknowledgement: ["acknowledgement", "dot"],
    again: ["retransmission", "double"], nak: ["NAK", "cross"], "rnr-nak": ["RNR NAK", "bars"],
    connection: ["connection manager", "diamond"], congestion: ["congestion", "wave"],
    damaged: ["bad ICRC", "cross"], refused: ["not understood", "cross"],
  };

  function element(name, className, text) {
    const made = document.createElement(name);
    if (className) made.className = className;
    if (text !== undefined) made.textContent = text;
    return made;
  }

  function shape(name, attributes) {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    return made;
  }

  const isForth = (packet) => (packets.mark[packet] & 1) !== 0;
  const kindOf = (packet) => data.kinds[packets.mark[packet] >> 3];

  // What a packet is drawn as: damage hides what it would mean, and a repetition what it was.
  function markOf(packet) {
    if (packets.mark[packet] & 4) return kindOf(packet) === "refused" ? "refused" : "damaged";
    if (packets.mark[packet] & 2 && kindOf(packet) !== "connection") return "again";
    return kindOf(packet);
  }

  function valueOf(packet, name) {
    const at = names[packets.shape[packet]].indexOf(name);
    return at < 0 ? "" : packets.values[packet].split("\n")[at];
  }
  const names = data.shapes.map((lines) => lines.split("\n"));

  // The head of an arrow tells the mark, too: colours alone don't reach everybody.
  const kSymbols = {
    triangle: "M0 2 L10 7 L0 12 Z", open: "M0 2 L10 7 L0 12", dot: "M1 7 a4 4 0 1 0 8 0 a4 4 0 1 0 -8 0 Z",
    double: "M-8 2 L0 7 L-8 12 M2 2 L10 7 L2 12", cross: "M0 2 L10 12 M10 2 L0 12", bars: "M2 1 V13 M8 1 V13",
    diamond: "M0 7 L5 2 L10 7 L5 12 Z", wave: "M0 7 q3 -8 5 0 t5 0",
  };
  const kFilled = { triangle: true, dot: true, diamond: true };
  const kDashes = { again: "8 4", connection: "2 3", refused: "1 5", damaged: "1 5", acknowledgement: "" };

  function arrow(mark, forth) {
    const picture = shape("svg", { "aria-hidden": "true" });
    picture.append(shape("line", { x1: "4", x2: "100%", y1: "7", y2: "7", stroke: "currentColor",
      "stroke-width": mark === "acknowledgement" ? "1" : "2", "stroke-dasharray": kDashes[mark] || "none" }));
    const place = shape("svg", { x: forth ? "100%" : "0", y: "0", width: "1", height: "14", overflow: "visible" });
    const symbol = kMarks[mark][1];
    place.append(shape("path", { d: kSymbols[symbol], transform: forth ? "translate(-12 0)" : "translate(12 0) scale(-1 1)",
      stroke: "currentColor", "stroke-width": "2", fill: kFilled[symbol] ? "currentColor" : "none" }));
    picture.append(place);
    return picture;
  }

  // The opcode, and in words what is special.
  function labelOf(packet) {
    const mark = markOf(packet), label = element("span", "label");
    const again = packets.mark[packet] & 2 ? " again" : "";
    if (mark === "connection") label.append(element("b", "", "CM " + valueOf(packet, "cm") + again));
    else if (mark === "nak" || mark === "rnr-nak") {
      const text = valueOf(packet, "syndrome");
      label.append(element("b", "", mark === "nak" ? text.replace("nak", "NAK") : "RNR NAK: " + text));
    } else {
      if (mark === "again" || mark === "damaged" || mark === "refused") label.append(element("b", "", kMarks[mark][0] + " "));
      label.append(data.opcodes[packets.opcode[packet]]);
    }
    const bytes = valueOf(packet, "payload-bytes"), about = valueOf(packet, "reason");
    label.append(" \u00b7 " + (mark === "refused" ? valueOf(packet, "refusal") : "psn " + packets.psn[packet]));
    if (about) label.append(" \u00b7 " + about);
    if (bytes && mark !== "connection") label.append(" \u00b7 " + bytes + " B");
    return label;
  }

  const counted = (number, what) => number + " " + what + (number === 1 ? "" : "s");
  const timeOf = (packet) => (packets.time[packet] / 1e6).toFixed(3);

  function rowOf(at) {
    const packet = shown[at], mark = markOf(packet);
    const row = element("div", "row " + mark + (at === current ? " now" : ""));
    row.id = "row-" + at;
    row.setAttribute("role", "option");
    row.setAttribute("aria-selected", at === current ? "true" : "false");
    row.dataset.at = at;
    row.style.top = at * kRow + "px";
    const lane = element("div", "lane");
    lane.append(labelOf(packet), arrow(mark, isForth(packet)));
    row.append(element("span", "time", timeOf(packet) + " ms"), lane);
    return row;
  }

  function draw(first, end) {
    const wanted = first + " " + end;
    if (wanted === drawn) return;
    drawn = wanted;
    const rows = [];
    for (let at = first; at < end; ++at) rows.push(rowOf(at));
    ladder.replaceChildren(...rows);
  }

  function drawVisible() {
    const above = -ladder.getBoundingClientRect().top;
    const first = Math.max(0, Math.floor(above / kRow) - kBeyond);
    draw(Math.min(first, shown.length), Math.min(shown.length, Math.ceil((above + innerHeight) / kRow) + kBeyond));
  }

  const qpnText = (qpn) => (qpn === null ? "queue pair ?" : "0x" + qpn.toString(16));
  const endText = (end) => end.address + " " + qpnText(end["queue-pair"]);

  function showDetails(at) {
    const details = byId("details");
    if (at >= shown.length) {
      details.replaceChildren(element("p", "faint", "No packet passes the filters."));
      return;
    }
    const packet = shown[at], list = element("dl"), values = packets.values[packet].split("\n");
    const ends = data.connections[packets.connection[packet]], forth = isForth(packet);
    const add = (name, value) => list.append(element("dt", "", name), element("dd", "", value));
    add("mark", kMarks[markOf(packet)][0]);
    add("source", ends[forth ? 0 : 1].address);
    add("destination", ends[forth ? 1 : 0].address);
    add("psn", String(packets.psn[packet]));
    names[packets.shape[packet]].forEach((name, i) => add(name, values[i]));
    details.replaceChildren(element("h2", "", data.opcodes[packets.opcode[packet]]),
      element("p", "faint", "packet " + (packet + 1) + ", " + timeOf(packet) + " ms"), list);
  }

  function choose(at) {
    if (at === current && byId("details").firstChild) return;
    for (const [row, is] of [[byId("row-" + current), false], [byId("row-" + at), true]]) {
      if (!row) continue;
      row.classList.toggle("now", is);
      row.setAttribute("aria-selected", is ? "true" : "false");
    }
    current = at;
    ladder.setAttribute("aria-activedescendant", "row-" + at);
    showDetails(at);
  }

  function moveTo(at) {
    at = Math.max(0, Math.min(shown.length - 1, at));
    const head = byId("ends").getBoundingClientRect().bottom;
    const below = matchMedia("(max-width: 800px)").matches ? innerHeight * 0.68 : innerHeight;
    const top = ladder.getBoundingClientRect().top + at * kRow;
    if (top < head) scrollBy(0, top - head);
    else if (top + kRow > below) scrollBy(0, top + kRow - below);
    drawVisible();
    choose(at);
  }

  function fill(select, choices) {
    select.replaceChildren(...choices.map(([value, text]) => {
      const option = element("option", "", text);
      option.value = value;
      return option;
    }));
  }

  // A number as people write it, decimal or with 0x; NaN for anything else.
  const numberOf = (text) => (/^(0x[0-9a-f]+|[0-9]+)$/i.test(text) ? Number(text) : NaN);

  const packetsOf = new Array(data.connections.length).fill(0);
  for (let i = 0; i < count; ++i) ++packetsOf[packets.connection[i]];

  // The busiest first; of very many the rest is found by queue pair.
  function listConnections() {
    const field = byId("queue-pair"), text = field.value.trim(), wanted = numberOf(text);
    field.setAttribute("aria-invalid", text !== "" && Number.isNaN(wanted) ? "true" : "false");
    const found = [];
    data.connections.forEach((ends, i) => {
      if (packetsOf[i] && (text === "" || ends.some((end) => end["queue-pair"] === wanted))) found.push(i);
    });
    found.sort((a, b) => packetsOf[b] - packetsOf[a] || a - b);
    const listed = found.slice(0, kListed).map((i) =>
      [i, data.connections[i].map(endText).join(" \u2194 ") + " (" + packetsOf[i] + ")"]);
    if (found.length > kListed) listed.push(["", (found.length - kListed) + " more: filter by queue pair"]);
    fill(byId("connection"), listed.length ? listed : [["", "none has this queue pair"]]);
  }

  function filter() {
    const chosen = byId("connection").value, connection = chosen === "" ? -1 : Number(chosen);
    const opcode = byId("opcode").value, kind = byId("kind").value;
    shown = [];
    for (let i = 0; i < count; ++i) {
      if (packets.connection[i] === connection && (opcode === "" || packets.opcode[i] === Number(opcode)) &&
          (kind === "" || markOf(i) === kind)) shown.push(i);
    }
    const ends = connection < 0 ? [] : data.connections[connection];
    document.querySelector("#ends .left").textContent = ends[0] ? endText(ends[0]) : "";
    document.querySelector("#ends .right").textContent = ends[1] ? endText(ends[1]) : "";
    ladder.style.height = shown.length * kRow + "px";
    drawn = "";
    current = 0;
    scrollTo(0, 0);
    drawVisible();
    showDetails(0);
  }

  function countMarks() {
    const counts = {};
    for (let i = 0; i < count; ++i) counts[markOf(i)] = (counts[markOf(i)] || 0) + 1;
    return counts;
  }

  function describeAll() {
    const counts = countMarks(), marks = Object.keys(kMarks).filter((mark) => counts[mark]);
    byId("name").textContent = document.title = data.name;
    byId("note").textContent = data.note;
    byId("summary").textContent = counted(count, "RoCEv2 packet") + " since " + new Date(data.start).toISOString() + ", " +
      counted(packetsOf.filter((of) => of > 0).length, "connection") + "; " + counted(data.others, "other");
    byId("legend").append(...marks.map((mark) => {
      const item = element("li", mark);
      item.append(arrow(mark, true), kMarks[mark][0] + " " + counts[mark]);
      return item;
    }));
    fill(byId("opcode"), [["", "all"], ...data.opcodes.map((name, i) => [i, name])]);
    fill(byId("kind"), [["", "all"], ...marks.map((mark) => [mark, kMarks[mark][0]])]);
  }

  const atOf = (event) => {
    const row = event.target.closest(".row");
    return row ? Number(row.dataset.at) : -1;
  };
  for (const what of ["mouseover", "click"]) {
    ladder.addEventListener(what, (event) => { if (atOf(event) >= 0) choose(atOf(event)); });
  }
  ladder.addEventListener("keydown", (event) => {
    const page = Math.max(1, Math.floor(innerHeight / kRow / 2));
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -shown.length, End: shown.length };
    if (!(event.key in steps) || shown.length === 0) return;
    event.preventDefault();
    moveTo(current + steps[event.key]);
  });
  byId("controls").addEventListener("submit", (event) => event.preventDefault());
  byId("queue-pair").addEventListener("input", () => { listConnections(); filter(); });
  for (const id of ["connection", "opcode", "kind"]) byId(id).addEventListener("change", filter);
  addEventListener("scroll", drawVisible, { passive: true });
  addEventListener("resize", drawVisible);
  addEventListener("beforeprint", () => draw(0, Math.min(shown.length, kPrinted)));
  addEventListener("afterprint", drawVisible);

  describeAll();
  listConnections();
  filter();
  document.documentElement.dataset.openMs = performance.now().toFixed(0);
})();
