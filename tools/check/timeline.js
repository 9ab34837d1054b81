// SPDX-License-Identifier: BSD-3-Clause
//
// Draws lines of regions over time. What comes from the recording becomes text nodes and nothing else.
"use strict";
(() => {
  const kAxis = 20, kLabels = 84, kListed = 500, kStep = 26, kWidest = 12000, kRanges = 8;
  const kStates = ["", "dirty", "stale", "both"];
  const kWords = {
    stored: "became dirty: the program has stored", written: "became stale: another side has written",
    same: "is neither dirty nor stale any more", clean: "cleaned", invalidate: "invalidated", read: "read by a peer", mistake: "mistake",
  };
  const byId = (id) => document.getElementById(id);
  const data = JSON.parse(byId("data").textContent);
  const { regions, events, stacks, mistakes, limits } = data;
  let chosen = null; // the index of an event

  function element(name, className, text) {
    const made = document.createElement(name);
    if (className) made.className = className;
    if (text !== undefined) made.textContent = text;
    return made;
  }
  function shape(name, className, attributes) {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    if (className) made.setAttribute("class", className);
    for (const key in attributes) made.setAttribute(key, attributes[key]);
    return made;
  }
  function timeText(ns) {
    if (ns < 1e3) return ns.toFixed(0) + " ns";
    if (ns < 1e6) return (ns / 1e3).toFixed(1) + " \u00b5s";
    return ns < 1e9 ? (ns / 1e6).toFixed(3) + " ms" : (ns / 1e9).toFixed(3) + " s";
  }
  const counted = (number, what) => number + " " + what + (number === 1 ? "" : "s");
  const span = (first, last) => (first === last ? String(first) : first + " to " + last);
  const linesText = (event) => (event.first_line === event.last_line ? "line " : "lines ") + span(event.first_line, event.last_line);
  const bytesText = (event) => "bytes " + event.first_byte + " to " + event.end_byte;
  const regionText = (region) => (region.host === null ? "" : "host " + region.host + ", ") + region.name;

  // ---- from times to places

  const knots = (() => {
    const times = new Set([0, data.end_ns]);
    for (const region of regions) {
      for (const band of region.bands) times.add(band[4]).add(band[5]);
      for (const mark of region.marks) times.add(events[mark[0]].time_ns);
    }
    return [...times].sort((a, b) => a - b);
  })();
  const isEven = () => byId("axis").value === "even";
  // The share of the width that lies before TIME.
  function shareOf(time) {
    if (!isEven() || knots.length < 2) return data.end_ns > 0 ? time / data.end_ns : 0;
    let low = 0, high = knots.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (knots[middle] <= time) low = middle; else high = middle - 1;
    }
    const next = knots[Math.min(low + 1, knots.length - 1)], length = next - knots[low];
    return (low + (length > 0 ? (time - knots[low]) / length : 0)) / (knots.length - 1);
  }
  function timeAt(share) {
    if (!isEven() || knots.length < 2) return share * data.end_ns;
    const at = Math.min(share * (knots.length - 1), knots.length - 1), low = Math.floor(at);
    const next = knots[Math.min(low + 1, knots.length - 1)];
    return knots[low] + (next - knots[low]) * (at - low);
  }

  // ---- pictures

  function draw(region, index, into) {
    const height = region.rows.length > 40 ? 7 : 15, room = Math.max(240, into.clientWidth);
    const width = isEven() ? Math.max(room, Math.min(kWidest, kLabels + knots.length * kStep)) : room;
    const tall = kAxis + region.rows.length * height + 8, inner = width - kLabels - 12;
    const x = (time) => kLabels + shareOf(time) * inner;
    const y = (row) => kAxis + row * height;
    const picture = shape("svg", "", { width, height: tall, viewBox: "0 0 " + width + " " + tall, tabindex: 0, role: "img" });
    picture.setAttribute("aria-label", "Lines of " + regionText(region) + " over time; left and right choose what happened");
    picture.dataset.region = index;
    const everyLabel = Math.max(1, Math.ceil(12 / height));
    for (let i = 0; i <= inner / 110; ++i) {
      const at = kLabels + i * 110;
      picture.append(shape("line", "grid", { x1: at, x2: at, y1: kAxis - 4, y2: tall - 8 }));
      const label = shape("text", "", { x: at + 2, y: kAxis - 7 });
      label.textContent = timeText(timeAt(i * 110 / inner));
      picture.append(label);
    }
    region.rows.forEach(([first, last], row) => {
      picture.append(shape("rect", "row", { x: kLabels, y: y(row) + 1, width: inner, height: height - 2 }));
      if (row % everyLabel === 0) {
        const label = shape("text", "", { x: 0, y: y(row) + Math.min(height, 11) });
        label.textContent = span(first, last);
        picture.append(label);
      }
    });
    for (const [row, state, certain, event, from, to] of region.bands) {
      const left = x(from);
      picture.append(titled(shape("rect", "band " + kStates[state] + (certain ? "" : " unsure"),
        { x: left, y: y(row) + 1, width: Math.max(1.5, x(to) - left), height: height - 2 }), event));
    }
    for (const [event, first, last] of region.marks) picture.append(markOf(event, x(events[event].time_ns), y(first), y(last + 1)));
    into.replaceChildren(picture);
  }
  function titled(made, event) {
    made.dataset.event = event;
    const title = shape("title");
    title.textContent = textOf(events[event]);
    made.append(title);
    return made;
  }
  function markOf(index, at, top, bottom) {
    const event = events[index];
    if (event.kind !== "mistake") {
      return titled(shape("line", "tick " + (event.kind === "read" ? "read" : "call " + event.kind), { x1: at, x2: at, y1: top, y2: bottom }), index);
    }
    const group = shape("g");
    group.append(titled(shape("line", "fault", { x1: at, x2: at, y1: top, y2: bottom }), index),
      titled(shape("path", "flag", { d: "M" + (at - 6) + " " + (top - 9) + "h12l-6 9z" }), index));
    return group;
  }
  function textOf(event) {
    const what = event.kind === "mistake" ? event.call + "() is missing" : kWords[event.kind] + ", " + event.call;
    return linesText(event) + ": " + what + ", at " + timeText(event.time_ns);
  }
  function drawAll() {
    regions.forEach((region, index) => draw(region, index, byId("region-" + index)));
    markChosen();
  }

  // ---- what is chosen

  // Behind what the heading says already.
  function whatOf(event) {
    const at = event.what.startsWith(event.call + "() missing") ? event.what.indexOf(": ") + 2 : 0;
    return event.what.slice(at);
  }
  function stackOf(event) {
    return event.stack === null || !stacks[event.stack] ? "not known" : stacks[event.stack].map((text, i) => "#" + i + " " + text).join("\n");
  }
  function markChosen() {
    for (const old of document.querySelectorAll("svg .chosen")) old.remove();
    const picture = chosen === null ? null : document.querySelector("#region-" + events[chosen].region + " svg");
    if (!picture) return;
    const at = kLabels + shareOf(events[chosen].time_ns) * (picture.width.baseVal.value - kLabels - 12);
    picture.append(shape("line", "chosen", { x1: at, x2: at, y1: 0, y2: picture.height.baseVal.value }));
  }
  function choose(index) {
    chosen = index;
    const panel = byId("details");
    if (index === null) {
      panel.replaceChildren(element("p", "faint", "Choose a line's colour, a mark, or a row of the table."));
      return;
    }
    const event = events[index], list = element("dl");
    const add = (name, text) => list.append(element("dt", "", name), element("dd", "", text));
    add("region", regionText(regions[event.region]) + ", process " + regions[event.region].pid);
    add("lines", span(event.first_line, event.last_line) + " (" + bytesText(event) + ")");
    add(event.kind === "mistake" ? "missing" : "call", event.call);
    add("time", timeText(event.time_ns));
    if (event.since_ns < event.time_ns && (event.kind === "stored" || event.kind === "written")) add("or since", timeText(event.since_ns));
    if (event.kind === "mistake") {
      add("what", whatOf(event));
      add("remedy", event.remedy);
    }
    panel.replaceChildren(element("h2", "", event.kind === "mistake" ? event.rule : kWords[event.kind]), list,
      element("h2", "", "Stack"), element("pre", "", stackOf(event)));
    markChosen();
  }
  function step(region, by) {
    const own = events.map((event, index) => index).filter((index) => events[index].region === region);
    const at = chosen !== null && events[chosen].region === region ? own.indexOf(chosen) + by : 0;
    if (own.length) choose(own[Math.max(0, Math.min(own.length - 1, at))]);
  }
  function showButton(text, index) {
    const button = element("button", "", text);
    button.type = "button";
    button.addEventListener("click", () => {
      choose(index);
      byId("region-" + events[index].region).scrollIntoView({ block: "nearest" });
    });
    return button;
  }

  // ---- text

  function fillMistakes() {
    const section = byId("mistakes"), list = element("ol");
    section.append(element("h2", "", mistakes.length === 0 ? "No mistake seen" : counted(mistakes.length, "mistake")));
    section.className = mistakes.length === 0 ? "none" : "";
    for (const mistake of mistakes) {
      const event = events[mistake.event], item = element("li"), others = mistake.events.slice(1, kRanges);
      item.append(element("strong", "", event.call + "() is missing"), " for " + linesText(event) + " (" + bytesText(event) + ") of " +
        regionText(regions[event.region]) + " at " + timeText(event.time_ns) + ". ", showButton("Show", mistake.event),
        element("p", "", whatOf(event)), element("p", "", "Remedy: " + event.remedy), element("pre", "", stackOf(event)));
      if (mistake.events.length > 1) {
        const places = others.map((index) => linesText(events[index])).join(", ");
        item.append(element("p", "faint", "So it is " + (mistake.events.length - 1) + " more times: " + places +
          (mistake.events.length > kRanges ? " and others" : "")));
      }
      list.append(item);
    }
    if (mistakes.length) section.append(list);
  }
  function fillRegions() {
    regions.forEach((region, index) => {
      const left = [["dirty", region.dirty_lines], ["stale", region.stale_lines]].filter((each) => each[1] > 0);
      const about = counted(region.lines, "line") + " of " + region.line_bytes + " bytes, process " + region.pid +
        (left.length ? "; at the end " + left.map(([what, count]) => counted(count, "line") + " " + what).join(", ") : "") +
        (region.lines_looked_at < region.lines ? "; those behind the first " + region.lines_looked_at + " aren't looked at" : "") +
        (region.merged ? "; neighbours with other histories share a row" : "") +
        (region.cut_ns === null ? "" : "; too much for a page behind " + timeText(region.cut_ns));
      const picture = element("div", "wide");
      picture.id = "region-" + index;
      byId("regions").append(element("h2", "", regionText(region)), element("p", "faint", about), picture);
    });
  }
  function fillEvents() {
    byId("events").tBodies[0].replaceChildren(...events.slice(0, kListed).map((event, index) => {
      const row = element("tr", event.kind === "mistake" ? "mistake" : ""), cell = element("td");
      cell.append(showButton(timeText(event.time_ns), index));
      row.append(cell, element("td", "", event.kind === "mistake" ? event.rule : kWords[event.kind]),
        element("td", "", regionText(regions[event.region])), element("td", "", span(event.first_line, event.last_line)),
        element("td", "", (event.kind === "mistake" ? "missing: " : "") + event.call));
      return row;
    }));
    if (events.length > kListed) byId("more").textContent = "And " + (events.length - kListed) + " more; --timeline-json has all.";
  }
  function describeAll() {
    byId("name").textContent = data.command;
    byId("summary").textContent = counted(regions.length, "region") + ", " + counted(events.length, "event") + " in " + timeText(data.end_ns);
    const notes = [];
    if (limits.events_of) notes.push("The first " + events.length + " of " + limits.events_of + " events are here; --timeline-json has all.");
    if (limits.regions_of > regions.length) notes.push("The first " + regions.length + " of " + limits.regions_of + " regions are drawn.");
    if (limits.lost) notes.push(counted(limits.lost, "event") + " found no place: --timeline-events makes room for more.");
    if (limits.unreadable) notes.push(counted(limits.unreadable, "record") + " can't be understood.");
    byId("note").textContent = notes.join(" ");
  }

  byId("regions").addEventListener("click", (event) => {
    const found = event.target.closest("[data-event]");
    if (found) choose(Number(found.dataset.event));
  });
  byId("regions").addEventListener("keydown", (event) => {
    const picture = event.target.closest("svg"), by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!picture || !by) return;
    event.preventDefault();
    step(Number(picture.dataset.region), by);
  });
  byId("controls").addEventListener("submit", (event) => event.preventDefault());
  byId("axis").addEventListener("change", drawAll);
  let planned = false;
  addEventListener("resize", () => {
    if (!planned) requestAnimationFrame(() => { planned = false; drawAll(); });
    planned = true;
  });

  describeAll();
  fillMistakes();
  fillRegions();
  fillEvents();
  choose(null);
  drawAll();
  document.documentElement.dataset.openMs = performance.now().toFixed(0);
})();
