// The profile on a canvas: tracks of bars, memory as an area, markers as lines. `unpack` reads what
// tinygrad/viz/timeline.py packs; keep the two in step.

import { colored, duration, element, plain, size } from "./text.js";

const ROW = 18, MEMORY = 70, HEAD = 22, LEFT = 110;

/** {duration, peak, tracks: [{name, kind, events, peak}], markers, itemsizes} */
export function unpack(buffer) {
  const view = new DataView(buffer);
  let at = 0;
  const u8 = () => view.getUint8(at++);
  const u32 = () => { at += 4; return view.getUint32(at - 4, true); };
  const u64 = () => { at += 8; return Number(view.getBigUint64(at - 8, true)); };
  const f32 = () => { at += 4; return view.getFloat32(at - 4, true); };
  const text = length => { at += length; return new TextDecoder().decode(new Uint8Array(buffer, at - length, length)); };
  const option = value => (value === 0 ? null : value - 1);

  const length = u32(), peak = u64(), indexLength = u32(), count = u32();
  const index = JSON.parse(text(indexLength));
  const range = () => ({
    name: index.strings[u32()], group: option(u32()), launch: option(u32()), start: u32(), length: f32(), details: index.strings[u32()],
  });
  const user = () => ({ name: index.strings[u32()], launch: u32(), place: u32(), mode: u8() });
  const change = () => {
    const isAlloc = u8() === 1, time = u32(), key = u32();
    if (isAlloc) {
      const dtype = index.strings[u32()], elements = u64();
      return { isAlloc, time, key, dtype, elements, bytes: elements * index.dtypes[dtype] };
    }
    return { isAlloc, time, key, users: Array.from({ length: u32() }, user) };
  };
  const track = () => {
    const name = text(u8()), kind = u8() === 0 ? "ranges" : "memory", events = u32();
    const peak = kind === "memory" ? u64() : 0;
    return { name, kind, peak, events: Array.from({ length: events }, kind === "ranges" ? range : change) };
  };
  return { duration: length, peak, tracks: Array.from({ length: count }, track), markers: index.markers, itemsizes: index.dtypes };
}

/** Gives each bar a lane so that bars of one lane do not overlap; returns the number of lanes. */
export function lanes(events) {
  const ends = [];
  for (const bar of events) {
    let lane = ends.findIndex(end => end <= bar.start);
    if (lane < 0) lane = ends.push(0) - 1;
    ends[lane] = bar.start + bar.length;
    bar.lane = lane;
  }
  return Math.max(1, ends.length);
}

/** Steps [time, bytes] of a memory track. */
export function memorySteps(events) {
  const sizes = new Map(), steps = [[0, 0]];
  let now = 0;
  for (const change of events) {
    if (change.isAlloc) { sizes.set(change.key, change.bytes); now += change.bytes; }
    else { now -= sizes.get(change.key); }
    steps.push([change.time, now]);
  }
  return steps;
}

function hue(name) {
  let sum = 0;
  for (const letter of plain(name)) sum = (sum * 31 + letter.codePointAt(0)) % 360;
  return sum;
}

export class Timeline {
  /** `openGroup(number)` shows the rewrites of a bar. */
  constructor(canvas, details, totals, openGroup) {
    Object.assign(this, { canvas, details, totals, openGroup });
    canvas.addEventListener("wheel", event => this.zoom(event), { passive: false });
    canvas.addEventListener("pointerdown", event => this.grab(event));
    new ResizeObserver(() => this.draw()).observe(canvas.parentElement);
  }

  show(profile) {
    this.profile = profile;
    this.from = 0;
    this.to = Math.max(1, profile.duration);
    let top = HEAD;
    for (const track of profile.tracks) {
      track.top = top;
      if (track.kind === "ranges") track.height = lanes(track.events) * ROW;
      else { track.height = MEMORY; track.steps = memorySteps(track.events); }
      top += track.height + 8;
    }
    this.height = top;
    this.sum();
    this.draw();
  }

  /** The names that took longest, over all tracks but the host's. */
  sum() {
    const sums = new Map();
    for (const track of this.profile.tracks.filter(t => t.kind === "ranges")) {
      for (const bar of track.events) {
        const key = `${track.name}\n${bar.name}`;
        const entry = sums.get(key) ?? { track: track.name, name: bar.name, count: 0, time: 0 };
        entry.count += 1;
        entry.time += bar.length;
        sums.set(key, entry);
      }
    }
    const longest = [...sums.values()].sort((a, b) => b.time - a.time).slice(0, 40);
    this.totals.replaceChildren(...longest.map(entry => element("tr", {},
      element("td", { className: "number" }, duration(entry.time)), element("td", { className: "number" }, `${entry.count}x`),
      element("td", {}, ...colored(entry.name)), element("td", {}, entry.track))));
  }

  x(time) { return LEFT + (time - this.from) / (this.to - this.from) * (this.width - LEFT); }
  time(x) { return this.from + (x - LEFT) / (this.width - LEFT) * (this.to - this.from); }

  draw() {
    if (!this.profile) return;
    const ratio = window.devicePixelRatio || 1;
    this.width = this.canvas.parentElement.clientWidth;
    this.canvas.width = this.width * ratio;
    this.canvas.height = this.height * ratio;
    this.canvas.style.width = `${this.width}px`;
    this.canvas.style.height = `${this.height}px`;
    const pen = this.canvas.getContext("2d");
    pen.scale(ratio, ratio);
    pen.font = "11px ui-monospace, monospace";
    pen.textBaseline = "middle";
    this.ruler(pen);
    for (const track of this.profile.tracks) {
      if (track.kind === "ranges") this.bars(pen, track);
      else this.area(pen, track);
      pen.fillStyle = "#14161a";
      pen.fillRect(0, track.top, LEFT - 4, track.height);
      pen.fillStyle = "#d8dce3";
      pen.fillText(track.name, 6, track.top + ROW / 2, LEFT - 12);
      if (track.kind === "memory") pen.fillText(size(track.peak), 6, track.top + 1.5 * ROW, LEFT - 12);
    }
    for (const marker of this.profile.markers) {
      pen.fillStyle = marker.color;
      pen.fillRect(this.x(marker.ts), HEAD, 1, this.height);
      pen.fillText(marker.name, this.x(marker.ts) + 3, HEAD - 4);
    }
  }

  ruler(pen) {
    const rough = (this.to - this.from) / 8, power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map(n => n * power).find(n => n >= rough);
    pen.fillStyle = "#8a92a0";
    for (let t = Math.ceil(this.from / step) * step; t <= this.to; t += step) {
      pen.fillRect(this.x(t), 14, 1, 4);
      pen.fillText(duration(t), this.x(t) + 3, 9);
    }
  }

  bars(pen, track) {
    for (const bar of track.events) {
      const left = Math.max(LEFT, this.x(bar.start)), right = this.x(bar.start + bar.length);
      if (right < LEFT || left > this.width) continue;
      const width = Math.max(1, right - left), top = track.top + bar.lane * ROW;
      pen.fillStyle = bar === this.chosen ? "#ffffff" : `hsl(${hue(bar.name)} 45% 55%)`;
      pen.fillRect(left, top, width, ROW - 2);
      if (width > 30) {
        pen.save();
        pen.beginPath();
        pen.rect(left, top, width, ROW);
        pen.clip();
        pen.fillStyle = "#14161a";
        pen.fillText(plain(bar.name), left + 3, top + ROW / 2 - 1);
        pen.restore();
      }
    }
  }

  area(pen, track) {
    const floor = track.top + track.height, scale = track.peak ? (track.height - 4) / track.peak : 0;
    pen.fillStyle = "#4f7fb8";
    track.steps.forEach(([time, bytes], i) => {
      const next = track.steps[i + 1]?.[0] ?? this.profile.duration;
      const left = Math.max(LEFT, this.x(time)), right = this.x(next);
      if (right > LEFT && left < this.width) pen.fillRect(left, floor - bytes * scale, Math.max(0.5, right - left), bytes * scale);
    });
  }

  zoom(event) {
    if (!event.ctrlKey && Math.abs(event.deltaY) < Math.abs(event.deltaX)) return;
    event.preventDefault();
    const at = this.time(event.offsetX), factor = Math.exp(event.deltaY * 0.002);
    this.from = Math.max(0, at + (this.from - at) * factor);
    this.to = Math.min(Math.max(1, this.profile.duration), at + (this.to - at) * factor);
    this.draw();
  }

  grab(event) {
    const start = { x: event.clientX, from: this.from, to: this.to };
    let moved = false;
    const move = e => {
      const shift = (start.x - e.clientX) / (this.width - LEFT) * (start.to - start.from);
      moved ||= Math.abs(start.x - e.clientX) > 2;
      const kept = Math.max(-start.from, Math.min(shift, Math.max(1, this.profile.duration) - start.to));
      this.from = start.from + kept;
      this.to = start.to + kept;
      this.draw();
    };
    const drop = () => {
      window.removeEventListener("pointermove", move);
      window.removeEventListener("pointerup", drop);
      if (!moved) this.choose(event.offsetX, event.offsetY);
    };
    window.addEventListener("pointermove", move);
    window.addEventListener("pointerup", drop);
  }

  choose(x, y) {
    const track = this.profile.tracks.find(t => y >= t.top && y < t.top + t.height);
    if (!track) return;
    if (track.kind === "memory") this.describeMemory(track, this.time(x));
    else {
      const lane = Math.floor((y - track.top) / ROW), slack = (this.to - this.from) / this.width * 2;
      this.chosen = track.events.find(b => b.lane === lane && b.start - slack <= this.time(x) && this.time(x) <= b.start + b.length + slack);
      if (this.chosen) this.describe(this.chosen);
    }
    this.draw();
  }

  describe(bar) {
    const parts = [element("h2", {}, ...colored(bar.name)), element("div", {}, `${duration(bar.length)} from ${duration(bar.start)}`)];
    if (bar.details) parts.push(element("pre", {}, bar.details));
    if (bar.launch !== null) parts.push(element("pre", {}, this.uses(bar.launch).join("\n")));
    if (bar.group !== null) parts.push(element("button", { onclick: () => this.openGroup(bar.group) }, "show its rewrites"));
    this.details.replaceChildren(...parts);
  }

  /** The buffers of a launch, as lines. */
  uses(launch) {
    const verbs = ["reads", "writes", "reads and writes"], lines = [];
    for (const track of this.profile.tracks.filter(t => t.kind === "memory")) {
      const buffers = new Map();
      for (const change of track.events) {
        if (change.isAlloc) { buffers.set(change.key, change); continue; }
        const buffer = buffers.get(change.key);
        for (const use of change.users.filter(u => u.launch === launch)) {
          lines.push([use.place, `${use.place}: ${verbs[use.mode]} buffer ${change.key}, ${buffer.elements} ${buffer.dtype}, ${size(buffer.bytes)}`]);
        }
      }
    }
    return lines.sort((a, b) => a[0] - b[0]).map(([, line]) => line);
  }

  describeMemory(track, time) {
    const live = new Map();
    for (const change of track.events) {
      if (change.time > time) break;
      if (change.isAlloc) live.set(change.key, change); else live.delete(change.key);
    }
    const largest = [...live.values()].sort((a, b) => b.bytes - a.bytes);
    const total = largest.reduce((sum, b) => sum + b.bytes, 0);
    const rows = largest.slice(0, 50).map(b => element("tr", {},
      element("td", { className: "number" }, size(b.bytes)), element("td", {}, `buffer ${b.key}`), element("td", {}, `${b.elements} ${b.dtype}`)));
    this.details.replaceChildren(element("h2", {}, `${track.name} at ${duration(time)}`),
      element("div", {}, `${size(total)} in ${largest.length} buffers`), element("table", {}, ...rows));
  }
}
