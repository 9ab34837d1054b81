// SPDX-License-Identifier: BSD-3-Clause
//
// Draws tracks over time. What comes from the recording becomes text nodes, or text on a canvas, and nothing else.
"use strict";
(() => {
  const kAxis = 22, kThread = 30, kLane = 9, kGap = 22, kMostLanes = 12, kMostTracks = 150, kListed = 200;
  const byId = (id) => document.getElementById(id);
  const data = JSON.parse(byId("data").textContent);
  const { requests, calls, marks, texts } = data;
  const count = requests.start.length;
  const canvas = byId("picture"), pen = canvas.getContext("2d");
  const css = getComputedStyle(document.documentElement);
  let tracks = []; // that are shown, with what lies in each, in the order of time
  let begin = 0, end = 1; // what is seen, in nanoseconds
  let chosen = null; // {kind, index, track}
  let planned = false;

  const kClasses = {
    send: ["Send", "--blue"], write: ["Write", "--teal"], read: ["Read, atomic", "--purple"], other: ["other request", "--orange"],
    receive: ["receive", "--grey"], call: ["call", "--grey"], failed: ["failed", "--red"],
  };

  function element(name, className, text) {
    const made = document.createElement(name);
    if (className) made.className = className;
    if (text !== undefined) made.textContent = text;
    return made;
  }

  // Of nanoseconds, with a unit that people can read.
  function timeText(ns) {
    if (ns < 1e3) return ns.toFixed(0) + " ns";
    if (ns < 1e6) return (ns / 1e3).toFixed(ns < 1e4 ? 2 : 1) + " \u00b5s";
    return ns < 1e9 ? (ns / 1e6).toFixed(3) + " ms" : (ns / 1e9).toFixed(3) + " s";
  }
  // With as many digits as tell times that are STEP apart from each other.
  const placeText = (ns, step) => (ns / 1e6).toFixed(Math.max(0, Math.min(6, Math.ceil(6 - Math.log10(step))))) + " ms";
  const counted = (number, what) => number + " " + what + (number === 1 ? "" : "s");
  const queueText = (queue) => (queue.what === "shared receives" ? "SRQ " : "QP ") + queue.number + " " + queue.what;
  const threadText = (thread) => thread.name + " (" + thread.tid + ")";

  function classOf(request) {
    const status = texts[requests.status[request]], name = texts[requests.operation[request]];
    if (status !== "" && status !== "IBV_WC_SUCCESS") return "failed";
    if (name === "Receive") return "receive";
    if (name.startsWith("Send")) return "send";
    if (name.includes("rite")) return "write";
    return name === "Read" || name.includes("add") || name.includes("swap") ? "read" : "other";
  }

  const ends = (columns, i) => (columns.length[i] < 0 ? last : columns.start[i] + columns.length[i]);
  let last = 1;
  for (const columns of [requests, calls, marks]) {
    for (let i = 0; i < columns.start.length; ++i) {
      last = Math.max(last, columns.start[i] + (columns.length ? Math.max(0, columns.length[i]) : 0));
    }
  }

  // Requests that overlap lie below each other; beyond the last lane they share it.
  function placeInLanes(track) {
    track.items.sort((a, b) => requests.start[a] - requests.start[b]);
    const free = [];
    track.lanes = track.items.map((i) => {
      let lane = free.findIndex((time) => time <= requests.start[i]);
      if (lane < 0) lane = free.length < kMostLanes ? free.length : kMostLanes - 1;
      free[lane] = Math.max(free[lane] || 0, ends(requests, i));
      return lane;
    });
    track.height = kGap + Math.max(1, free.length) * kLane;
  }

  function group(columns, key, size) {
    const lists = Array.from({ length: size }, () => []);
    for (let i = 0; i < columns.start.length; ++i) lists[columns[key][i]].push(i);
    return lists;
  }
  const ofQueue = group(requests, "queue", data.queues.length);
  const callsOf = group(calls, "thread", data.threads.length), marksOf = group(marks, "thread", data.threads.length);
  const queueTracks = data.queues.map((queue, i) => {
    const track = { kind: "queue", pid: queue.pid, number: queue.number, name: queueText(queue), items: ofQueue[i] };
    placeInLanes(track);
    return track;
  });
  const threadTracks = data.threads.map((thread, i) => ({ kind: "thread", pid: thread.pid, name: threadText(thread),
    items: callsOf[i], marks: marksOf[i], height: kThread })).filter((track) => track.items.length + track.marks.length > 0);

  function chooseTracks() {
    const pid = byId("process").value, field = byId("queue-pair"), text = field.value.trim();
    const number = /^(0x[0-9a-f]+|[0-9]+)$/i.test(text) ? Number(text) : NaN;
    field.setAttribute("aria-invalid", text !== "" && Number.isNaN(number) ? "true" : "false");
    const all = [...threadTracks, ...queueTracks].filter((track) => (pid === "" || track.pid === Number(pid)) &&
      (text === "" || (track.kind === "queue" && track.number === number)));
    all.sort((a, b) => a.pid - b.pid || (a.kind < b.kind ? 1 : a.kind > b.kind ? -1 : 0));
    tracks = all.slice(0, kMostTracks);
    let top = kAxis;
    for (const track of tracks) {
      track.top = top;
      top += track.height;
    }
    byId("labels").replaceChildren(...tracks.map((track) => {
      const label = element("div", "", track.pid + " " + track.name);
      label.style.top = track.top + "px";
      label.style.height = track.height + "px";
      label.title = label.textContent;
      return label;
    }));
    const beyond = all.length - tracks.length;
    byId("note").textContent = data.note + (beyond > 0 ? " " + counted(beyond, "track") + " more: choose a process or a queue pair." : "");
    byId("tracks").style.height = top + 6 + "px";
    canvas.style.height = top + 6 + "px";
    chosen = null;
    plan();
  }

  const colours = {};
  function readColours() {
    for (const name of ["--ink", "--faint", "--line", "--focus", "--blue", "--teal", "--purple", "--orange", "--grey", "--red"]) {
      colours[name] = css.getPropertyValue(name).trim();
    }
  }

  const width = () => canvas.clientWidth;
  const xOf = (time) => (time - begin) / (end - begin) * width();
  const timeAt = (x) => begin + x / Math.max(1, width()) * (end - begin);

  function drawAxis() {
    const rough = (end - begin) / Math.max(1, width() / 110), power = 10 ** Math.floor(Math.log10(rough));
    const step = Math.max(1, [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= rough));
    pen.fillStyle = colours["--faint"];
    pen.strokeStyle = colours["--line"];
    pen.lineWidth = 1;
    for (let time = Math.ceil(begin / step) * step; time <= end; time += step) {
      const x = Math.round(xOf(time)) + 0.5;
      pen.beginPath();
      pen.moveTo(x, kAxis - 5);
      pen.lineTo(x, canvas.clientHeight);
      pen.stroke();
      pen.fillText(placeText(time, step), x + 3, 12);
    }
  }

  // Each at least a pixel wide; those that would lie on one pixel of a lane are drawn once.
  function drawBar(from, to, y, height, colour, seen) {
    const left = Math.max(-2, xOf(from)), right = Math.min(width() + 2, Math.max(xOf(to), left + 1));
    const key = y * 65536 + Math.round(left) + 2;
    if (right - left <= 1.5 && seen.has(key)) return;
    seen.add(key);
    pen.fillStyle = colour;
    pen.fillRect(left, y, right - left, height);
  }

  function drawTrack(track) {
    const seen = new Set();
    pen.strokeStyle = colours["--line"];
    pen.beginPath();
    pen.moveTo(0, track.top + 0.5);
    pen.lineTo(width(), track.top + 0.5);
    pen.stroke();
    if (track.kind === "thread") {
      for (const i of track.items) {
        if (calls.start[i] <= end && ends(calls, i) >= begin) {
          drawBar(calls.start[i], ends(calls, i), track.top + 14, 12, colours[calls.failed[i] ? "--red" : "--grey"], seen);
        }
      }
      for (const i of track.marks) {
        if (marks.start[i] >= begin && marks.start[i] <= end) drawBar(marks.start[i], marks.start[i], track.top + 5, 8, colours["--ink"], seen);
      }
      return;
    }
    track.items.forEach((i, at) => {
      if (requests.start[i] <= end && ends(requests, i) >= begin) {
        drawBar(requests.start[i], ends(requests, i), track.top + kGap - 4 + track.lanes[at] * kLane, kLane - 2,
          colours[kClasses[classOf(i)][1]], seen);
      }
    });
  }

  function boxOf(what) {
    const { kind, index, track } = what;
    if (kind === "request") {
      const lane = track.lanes[track.items.indexOf(index)];
      return [requests.start[index], ends(requests, index), track.top + kGap - 4 + lane * kLane, kLane - 2];
    }
    return kind === "call" ? [calls.start[index], ends(calls, index), track.top + 14, 12]
      : [marks.start[index], marks.start[index], track.top + 5, 8];
  }

  function draw() {
    planned = false;
    const scale = devicePixelRatio || 1;
    canvas.width = Math.max(1, Math.round(canvas.clientWidth * scale));
    canvas.height = Math.max(1, Math.round(canvas.clientHeight * scale));
    pen.setTransform(scale, 0, 0, scale, 0, 0);
    pen.font = "11px system-ui, sans-serif";
    drawAxis();
    tracks.forEach(drawTrack);
    if (chosen) {
      const [from, to, y, height] = boxOf(chosen);
      pen.strokeStyle = colours["--focus"];
      pen.lineWidth = 2;
      pen.strokeRect(xOf(from) - 2, y - 2, Math.max(1, xOf(to) - xOf(from)) + 4, height + 4);
    }
  }

  function plan() {
    if (planned) return;
    planned = true;
    requestAnimationFrame(draw);
  }

  function show(from, to) {
    const least = Math.min(last, 100);
    const length = Math.min(last, Math.max(least, to - from));
    begin = Math.max(0, Math.min(from, last - length));
    end = begin + length;
    plan();
  }
  function zoom(factor, at = (begin + end) / 2) {
    show(at - (at - begin) * factor, at + (end - at) * factor);
  }

  function choose(what) {
    chosen = what;
    const list = element("dl"), details = byId("details");
    const add = (name, value) => list.append(element("dt", "", name), element("dd", "", String(value)));
    if (!what) {
      details.replaceChildren(element("p", "faint", "Choose a request, a call or an instant."));
      plan();
      return;
    }
    const i = what.index, columns = { request: requests, call: calls, mark: marks }[what.kind];
    const thread = data.threads[columns.thread[i]];
    let title = "";
    if (what.kind === "request") {
      const queue = data.queues[requests.queue[i]];
      title = texts[requests.operation[i]];
      add("queue", queueText(queue));
      add("device", queue.device);
      add("wr_id", requests.id[i]);
      add("bytes", requests.bytes[i]);
      if (texts[requests.status[i]]) add("status", texts[requests.status[i]]);
      add("end", texts[requests.ending[i]]);
    } else {
      title = texts[columns.name[i]];
      if (what.kind === "call") {
        add("bytes", calls.bytes[i]);
        add("failed", calls.failed[i] ? "yes" : "no");
      }
    }
    add("at", placeText(columns.start[i], 1));
    if (columns.length) add("took", columns.length[i] < 0 ? "no end is recorded" : timeText(columns.length[i]));
    add("process", thread.pid + " " + thread.program);
    add("thread", threadText(thread));
    details.replaceChildren(element("h2", "", title), list);
    plan();
  }

  function reveal(what) {
    const [from, to] = boxOf(what);
    if (from < begin || to > end) show(from - (end - begin) / 3, from + (end - begin) * 2 / 3);
    choose(what);
  }

  // The nearest thing under the pointer, within a few pixels.
  function thingAt(x, y) {
    const track = tracks.find((each) => y >= each.top && y < each.top + each.height);
    if (!track) return null;
    const time = timeAt(x), slack = (end - begin) / Math.max(1, width()) * 4;
    const candidates = track.kind === "queue" ? track.items.map((index) => ({ kind: "request", index, track }))
      : [...track.items.map((index) => ({ kind: "call", index, track })), ...track.marks.map((index) => ({ kind: "mark", index, track }))];
    let best = null, least = Infinity;
    for (const [at, what] of candidates.entries()) {
      const from = what.kind === "request" ? requests.start[what.index] : what.kind === "call" ? calls.start[what.index] : marks.start[what.index];
      const to = what.kind === "request" ? ends(requests, what.index) : what.kind === "call" ? ends(calls, what.index) : from;
      const beside = Math.max(0, from - time, time - to);
      if (beside > slack) continue;
      const middle = what.kind === "request" ? track.top + kGap + track.lanes[at] * kLane : track.top + (what.kind === "call" ? 20 : 9);
      const distance = Math.abs(y - middle) + beside / slack;
      if (distance < least) [best, least] = [what, distance];
    }
    return best;
  }

  // Requests of the chosen one's queue, one after the other.
  function step(by) {
    const track = chosen && chosen.kind === "request" ? chosen.track : tracks.find((each) => each.kind === "queue");
    if (!track || track.items.length === 0) return;
    const at = chosen && chosen.track === track ? track.items.indexOf(chosen.index) + by : 0;
    reveal({ kind: "request", index: track.items[Math.max(0, Math.min(track.items.length - 1, at))], track });
  }
  function stepTrack(by) {
    const queues = tracks.filter((each) => each.kind === "queue"), at = chosen ? queues.indexOf(chosen.track) + by : 0;
    const track = queues[Math.max(0, Math.min(queues.length - 1, at))];
    if (track && track.items.length) reveal({ kind: "request", index: track.items[0], track });
  }

  // The longest first; a button leads to the longest of them.
  function fillLengths() {
    const groups = new Map();
    for (let i = 0; i < count; ++i) {
      if (requests.length[i] < 0) continue;
      const key = requests.queue[i] + " " + requests.operation[i];
      if (!groups.has(key)) groups.set(key, []);
      groups.get(key).push(i);
    }
    const rows = [...groups.values()].map((list) => {
      list.sort((a, b) => requests.length[a] - requests.length[b]);
      return list;
    });
    const longest = (list) => requests.length[list[list.length - 1]];
    rows.sort((a, b) => longest(b) - longest(a));
    document.querySelector("#lengths tbody").replaceChildren(...rows.slice(0, kListed).map((list) => {
      const row = element("tr"), first = list[0], queue = data.queues[requests.queue[first]];
      const at = (part) => timeText(requests.length[list[Math.min(list.length - 1, Math.floor(list.length * part))]]);
      const bytes = list.reduce((sum, i) => sum + requests.bytes[i], 0);
      for (const text of [queue.pid + " " + queueText(queue), texts[requests.operation[first]], list.length, bytes, at(0.5), at(0.99)]) {
        row.append(element("td", "", String(text)));
      }
      const cell = element("td"), button = element("button", "", timeText(longest(list)));
      button.type = "button";
      button.title = "Show it";
      button.addEventListener("click", () => {
        const index = list[list.length - 1], track = tracks.find((each) => each.kind === "queue" && each.items === ofQueue[requests.queue[index]]);
        if (!track) return;
        show(requests.start[index] - longest(list) * 2, ends(requests, index) + longest(list) * 2);
        choose({ kind: "request", index, track });
        canvas.scrollIntoView({ block: "nearest" });
      });
      cell.append(button);
      row.append(cell);
      return row;
    }));
  }

  function describeAll() {
    byId("name").textContent = document.title = data.name;
    const pids = new Map(data.threads.map((thread) => [thread.pid, thread.program]));
    byId("summary").textContent = counted(count, "request") + ", " + counted(calls.start.length, "call") + " in " + timeText(last) + "; " +
      (pids.size === 1 ? "1 process" : pids.size + " processes") + ", " + counted(data.queues.length, "queue");
    const options = [["", "all"], ...[...pids].map(([pid, program]) => [pid, pid + " " + program])];
    byId("process").replaceChildren(...options.map(([value, text]) => {
      const option = element("option", "", text);
      option.value = value;
      return option;
    }));
    const used = new Set();
    for (let i = 0; i < count; ++i) used.add(classOf(i));
    if (calls.start.length) used.add("call");
    byId("legend").append(...Object.keys(kClasses).filter((name) => used.has(name)).map((name) => {
      const item = element("li", name);
      item.append(element("i"), kClasses[name][0]);
      return item;
    }));
  }

  let dragged = null;
  canvas.addEventListener("pointerdown", (event) => {
    dragged = { x: event.offsetX, begin, end, moved: false };
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!dragged) return;
    const by = (dragged.x - event.offsetX) / Math.max(1, width()) * (dragged.end - dragged.begin);
    dragged.moved = dragged.moved || Math.abs(dragged.x - event.offsetX) > 3;
    if (dragged.moved) show(dragged.begin + by, dragged.end + by);
  });
  canvas.addEventListener("pointerup", (event) => {
    if (dragged && !dragged.moved) choose(thingAt(event.offsetX, event.offsetY));
    dragged = null;
  });
  canvas.addEventListener("pointercancel", () => { dragged = null; });
  canvas.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.shiftKey) return; // the page scrolls
    event.preventDefault();
    zoom(event.deltaY > 0 || event.deltaX > 0 ? 1.25 : 0.8, timeAt(event.offsetX));
  }, { passive: false });
  canvas.addEventListener("keydown", (event) => {
    const actions = { ArrowRight: () => step(1), ArrowLeft: () => step(-1), ArrowDown: () => stepTrack(1), ArrowUp: () => stepTrack(-1),
      "+": () => zoom(0.5), "-": () => zoom(2), 0: () => show(0, last) };
    if (!(event.key in actions)) return;
    event.preventDefault();
    actions[event.key]();
  });
  byId("in").addEventListener("click", () => zoom(0.5));
  byId("out").addEventListener("click", () => zoom(2));
  byId("whole").addEventListener("click", () => show(0, last));
  byId("controls").addEventListener("submit", (event) => event.preventDefault());
  byId("process").addEventListener("change", chooseTracks);
  byId("queue-pair").addEventListener("input", chooseTracks);
  addEventListener("resize", plan);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { readColours(); plan(); });

  readColours();
  describeAll();
  fillLengths();
  show(0, last);
  chooseTracks();
  choose(null);
  document.documentElement.dataset.openMs = performance.now().toFixed(0);
})();
