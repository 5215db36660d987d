// A graph in layers, sources above their users. `layout` is pure; `GraphView` draws into an SVG that pans and zooms.

import { colorRuns, plain } from "./text.js";

const LETTER = 6.7, LINE = 14, PAD = 7, GAP_X = 22, GAP_Y = 46, SWEEPS = 8;
const READABLE = 1.6, UNREADABLE = 5; // graph units to a pixel
const SVG = "http://www.w3.org/2000/svg";

/** Layer of each node: below all of its sources; a node without sources moves down to its first user. */
function layersOf(graph, ids, users) {
  const layer = new Map();
  for (const id of ids) {
    layer.set(id, Math.max(-1, ...graph[id].src.map(([, s]) => layer.get(String(s)) ?? -1)) + 1);
  }
  for (const id of ids) {
    if (graph[id].src.length === 0 && users.get(id).length) {
      layer.set(id, Math.min(...users.get(id).map(u => layer.get(u))) - 1);
    }
  }
  return layer;
}

/** Orders each row by the mean place of its neighbours, down and up in turn. */
function orderRows(rows, neighboursAbove, neighboursBelow) {
  const place = new Map();
  const number = row => row.forEach((id, i) => place.set(id, (i + 0.5) / row.length));
  rows.forEach(number);
  for (let sweep = 0; sweep < SWEEPS; sweep++) {
    const down = sweep % 2 === 0;
    const near = down ? neighboursAbove : neighboursBelow;
    for (const row of down ? rows : [...rows].reverse()) {
      const wish = new Map(row.map(id => {
        const around = near.get(id);
        return [id, around.length ? around.reduce((sum, n) => sum + place.get(n), 0) / around.length : place.get(id)];
      }));
      row.sort((a, b) => wish.get(a) - wish.get(b));
      number(row);
    }
  }
}

/** Moves the boxes of a row toward where their neighbours are, without overlap. */
function spread(row, boxes, wishes) {
  let edge = -Infinity, shift = 0;
  for (const id of row) {
    const box = boxes.get(id);
    box.x = Math.max(wishes.get(id) - box.w / 2, edge);
    edge = box.x + box.w + GAP_X;
    shift += wishes.get(id) - box.w / 2 - box.x;
  }
  for (const id of row) boxes.get(id).x += shift / row.length;
}

/** Boxes {x, y, w, h, lines} by id, and edges {from, to, place}. */
export function layout(graph) {
  const ids = Object.keys(graph);
  const users = new Map(ids.map(id => [id, []]));
  const sources = new Map(ids.map(id => [id, graph[id].src.map(([, s]) => String(s)).filter(s => s in graph)]));
  for (const id of ids) for (const s of sources.get(id)) users.get(s).push(id);
  const layer = layersOf(graph, ids, users);
  const rows = [];
  const boxes = new Map();
  for (const id of ids) {
    const lines = graph[id].label.split("\n");
    const widest = Math.max(...lines.map(line => plain(line).length));
    boxes.set(id, { x: 0, y: 0, w: widest * LETTER + 2 * PAD, h: lines.length * LINE + 2 * PAD, lines });
    (rows[layer.get(id)] ??= []).push(id);
  }
  const filled = rows.filter(row => row !== undefined);
  orderRows(filled, sources, users);
  let y = 0;
  for (const row of filled) {
    let x = 0;
    for (const id of row) { boxes.get(id).x = x; boxes.get(id).y = y; x += boxes.get(id).w + GAP_X; }
    y += Math.max(...row.map(id => boxes.get(id).h)) + GAP_Y;
  }
  const middle = id => boxes.get(id).x + boxes.get(id).w / 2;
  for (let sweep = 0; sweep < SWEEPS; sweep++) {
    const near = sweep % 2 === 0 ? sources : users;
    for (const row of sweep % 2 === 0 ? filled : [...filled].reverse()) {
      const wishes = new Map(row.map(id => {
        const around = near.get(id);
        return [id, around.length ? around.reduce((sum, n) => sum + middle(n), 0) / around.length : middle(id)];
      }));
      spread(row, boxes, wishes);
    }
  }
  const edges = ids.flatMap(id => graph[id].src.filter(([, s]) => String(s) in graph)
    .map(([place, s]) => ({ from: String(s), to: id, place })));
  return { boxes, edges };
}

function svg(name, attributes, parent) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  parent?.append(made);
  return made;
}

export class GraphView {
  constructor(target) {
    this.target = target;
    this.box = { x: 0, y: 0, w: 100, h: 100 };
    target.addEventListener("wheel", event => this.zoom(event), { passive: false });
    target.addEventListener("pointerdown", event => this.grab(event));
  }

  show(graph, changed) {
    const fresh = new Set((changed ?? []).map(String));
    const { boxes, edges } = layout(graph);
    this.target.replaceChildren();
    const lines = svg("g", {}, this.target), nodes = svg("g", {}, this.target);
    this.edges = edges.map(edge => ({ ...edge, path: this.edge(lines, boxes.get(edge.from), boxes.get(edge.to), edge.place) }));
    this.nodes = new Map();
    for (const [id, box] of boxes) this.nodes.set(id, this.node(nodes, id, box, graph[id].color, fresh.has(id)));
    this.extent = this.extentOf([...boxes.values()]);
    // where to look in a graph too large to read as a whole: what changed, else the node that uses all others
    const ids = [...boxes.keys()];
    this.center = boxes.get(ids.find(id => fresh.has(id)) ?? ids[ids.length - 1]);
    this.fit();
    if (this.box.w / this.target.getBoundingClientRect().width > UNREADABLE) this.focus();
  }

  edge(parent, from, to, place) {
    const x1 = from.x + from.w / 2, y1 = from.y + from.h, x2 = to.x + to.w / 2, y2 = to.y;
    const bend = Math.max(20, (y2 - y1) / 2);
    const path = svg("path", { class: "edge", d: `M${x1},${y1} C${x1},${y1 + bend} ${x2},${y2 - bend} ${x2},${y2}` }, parent);
    svg("text", { class: "place", x: x2 + (x1 - x2) * 0.08 + 3, y: y2 - 4 }, parent).textContent = place;
    return path;
  }

  node(parent, id, box, color, isNew) {
    const group = svg("g", { class: isNew ? "node new" : "node", transform: `translate(${box.x},${box.y})` }, parent);
    svg("rect", { width: box.w, height: box.h, fill: color }, group);
    box.lines.forEach((line, i) => {
      const text = svg("text", { x: PAD, y: PAD + LINE * (i + 0.75) }, group);
      for (const run of colorRuns(line)) {
        svg("tspan", run.color === null ? {} : { class: `c${run.color}` }, text).textContent = run.text;
      }
    });
    group.addEventListener("click", () => this.mark(id));
    return group;
  }

  /** Shows what a node uses and what uses it. */
  mark(id) {
    const around = new Set([id]);
    for (const edge of this.edges) {
      const touches = edge.from === id || edge.to === id;
      edge.path.classList.toggle("marked", touches);
      if (touches) { around.add(edge.from); around.add(edge.to); }
    }
    for (const [other, group] of this.nodes) group.classList.toggle("marked", around.has(other));
  }

  extentOf(boxes) {
    const left = Math.min(...boxes.map(b => b.x)), top = Math.min(...boxes.map(b => b.y));
    return { x: left, y: top, w: Math.max(...boxes.map(b => b.x + b.w)) - left, h: Math.max(...boxes.map(b => b.y + b.h)) - top };
  }

  fit() {
    const { x, y, w, h } = this.extent, edge = 20;
    const view = this.target.getBoundingClientRect();
    // never larger than life
    const scale = Math.max((w + 2 * edge) / view.width, (h + 2 * edge) / view.height, 1);
    const [vw, vh] = [view.width * scale, view.height * scale];
    this.look({ x: x + w / 2 - vw / 2, y: y + h / 2 - vh / 2, w: vw, h: vh });
  }

  /** Shows the neighbourhood of the centre. */
  focus() {
    const view = this.target.getBoundingClientRect(), { x, y, w, h } = this.center;
    const [vw, vh] = [view.width * READABLE, view.height * READABLE];
    this.look({ x: x + w / 2 - vw / 2, y: y + h / 2 - vh / 2, w: vw, h: vh });
  }

  look(box) {
    this.box = box;
    this.target.setAttribute("viewBox", `${box.x} ${box.y} ${box.w} ${box.h}`);
  }

  zoom(event) {
    event.preventDefault();
    const view = this.target.getBoundingClientRect(), { x, y, w, h } = this.box;
    const factor = Math.exp(event.deltaY * 0.0015);
    const fx = (event.clientX - view.left) / view.width, fy = (event.clientY - view.top) / view.height;
    this.look({ x: x + w * fx * (1 - factor), y: y + h * fy * (1 - factor), w: w * factor, h: h * factor });
  }

  grab(event) {
    const start = { x: event.clientX, y: event.clientY, box: this.box };
    const scale = this.box.w / this.target.getBoundingClientRect().width;
    const move = e => this.look({ ...start.box, x: start.box.x - (e.clientX - start.x) * scale, y: start.box.y - (e.clientY - start.y) * scale });
    const drop = () => { window.removeEventListener("pointermove", move); window.removeEventListener("pointerup", drop); };
    window.addEventListener("pointermove", move);
    window.addEventListener("pointerup", drop);
  }
}
