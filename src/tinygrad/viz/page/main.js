// The page: which group, step and change is looked at stands in the address, so that a place can be linked and gone back to.

import { GraphView } from "./graph.js";
import { colored, element } from "./text.js";
import { Timeline, unpack } from "./timeline.js";

const MOST_NODES = 1500;
const byId = id => document.getElementById(id);
const state = { groups: [], group: null, step: 0, change: 0, view: "graph", steps: new Map(), shown: null };
const graphView = new GraphView(byId("graph"));
const timeline = new Timeline(byId("bars"), byId("event-details"), byId("totals"), group => go({ group, step: 0, change: 0 }));

async function ask(path) {
  const answer = await fetch(path);
  if (!answer.ok) throw new Error(await answer.text());
  return answer;
}
const askJson = async path => (await ask(path)).json();
const tell = text => { byId("status").textContent = text; };

// ---- places

function go(place) {
  const next = { tab: "rewrites", group: state.group, step: state.step, change: state.change, ...place };
  location.hash = next.tab === "timeline" ? "timeline" : `${next.group}/${next.step}/${next.change}`;
}

async function arrive() {
  const where = location.hash.slice(1);
  const isTimeline = where === "timeline";
  for (const tab of ["rewrites", "timeline"]) {
    const chosen = (tab === "timeline") === isTimeline;
    byId(tab).classList.toggle("shown", chosen);
    byId(`tab-${tab}`).classList.toggle("chosen", chosen);
  }
  try {
    if (isTimeline) await showTimeline();
    else await showStep(...where.split("/"));
    tell("");
  } catch (error) {
    tell(error.message);
  }
}

// ---- groups and steps

function stepLine(group, number, step) {
  const line = element("div", { className: step.match_count ? "step" : "step idle", title: `${step.loc[0]}:${step.loc[1]}\n${step.code_line}` },
    element("span", { className: "count" }, String(step.match_count)), ...colored(step.name));
  line.style.paddingLeft = `${12 + 12 * step.depth}px`;
  line.classList.toggle("chosen", group === state.group && String(number) === String(state.step));
  line.onclick = () => go({ group, step: number, change: 0 });
  return line;
}

function groupBlock(number) {
  const group = state.groups[number], isOpen = number === state.group;
  const title = element("div", { className: "title" }, isOpen ? "- " : "+ ", ...colored(group.name));
  title.onclick = () => go({ group: number, step: 0, change: 0 });
  const block = element("div", { className: "group" }, title);
  if (!isOpen) return block;
  group.steps.forEach((step, i) => block.append(stepLine(number, i, step)));
  if (group.kernel) {
    for (const [name, label] of [["source", "source"], ["listing", "instructions"]]) {
      const line = element("div", { className: "step" }, label);
      line.style.paddingLeft = "12px";
      line.classList.toggle("chosen", state.step === name);
      line.onclick = () => go({ group: number, step: name, change: 0 });
      block.append(line);
    }
  }
  return block;
}

function listGroups() {
  const wanted = byId("filter").value.toLowerCase();
  const numbers = state.groups.map((_, i) => i).filter(i => state.groups[i].name.toLowerCase().includes(wanted));
  byId("group-list").replaceChildren(...numbers.map(groupBlock));
  byId("group-list").querySelector(".chosen")?.scrollIntoView({ block: "nearest" });
}

// ---- one step

async function showStep(group, step, change) {
  if (!state.groups.length) { tell("no rewrites were recorded"); return; }
  const known = state.groups[Number(group)] ? Number(group) : 0;
  Object.assign(state, { group: known, step: step || "0", change: Number(change || 0) });
  listGroups();
  if (state.step === "source" || state.step === "listing") { await showKernel(); return; }
  if (!state.groups[known].steps.length) { showText("nothing was rewritten: the result came from a cache"); return; }
  const at = `group=${known}&step=${state.step}`;
  if (!state.steps.has(at)) state.steps.set(at, await askJson(`/api/step?${at}`));
  state.shown = await askJson(`/api/graph?${at}&change=${state.change}`);
  listChanges(state.steps.get(at));
  showView();
}

function listChanges({ changes, trace }) {
  const line = (number, text, time) => {
    const made = element("div", { className: "change" }, element("span", { className: "count" }, time), text);
    made.classList.toggle("chosen", number === state.change);
    made.onclick = () => go({ change: number });
    return made;
  };
  const lines = changes.map((c, i) => line(i + 1, `${i + 1} ${c.from} \u2192 ${c.to}${c.rule ? `  ${c.rule.name}` : ""}`, `${c.us} us`));
  byId("changes").replaceChildren(line(0, "start", ""), ...lines);
  byId("changes").querySelector(".chosen")?.scrollIntoView({ block: "nearest" });
  byId("trace").replaceChildren(...trace.map(([file, number, name, code]) => element("div", {},
    element("div", { className: "where" }, `${file}:${number} ${name}`), code)));
}

async function showKernel() {
  const kernel = await askJson(`/api/kernel?group=${state.group}`);
  byId("changes").replaceChildren();
  byId("trace").replaceChildren();
  byId("rule").textContent = "";
  showText(kernel[state.step]);
}

function showText(...content) {
  byId("graph").style.display = "none";
  byId("text").style.display = "block";
  byId("text").replaceChildren(...content);
}

function showView() {
  const { graph, uop, diff, changed, upat } = state.shown, count = Object.keys(graph).length;
  for (const button of document.querySelectorAll("[data-view]")) button.classList.toggle("chosen", button.dataset.view === state.view);
  byId("rule").textContent = upat ? `${upat[0][0]}:${upat[0][1]}\n${upat[1]}` : "";
  byId("place").textContent = `${count} nodes`;
  if (state.view === "diff") {
    const kind = { "+": "added", "-": "removed" };
    showText(...(diff ?? ["the start of the step"]).map(line => element("div", { className: kind[line[0]] ?? "" }, line)));
  } else if (state.view === "text") {
    showText(...colored(uop));
  } else if (count > MOST_NODES) {
    showText(`${count} nodes are too many to draw; Text and Diff show them`);
  } else {
    byId("text").style.display = "none";
    byId("graph").style.display = "block";
    graphView.show(graph, changed);
  }
}

function moveBy(key) {
  const group = state.groups[state.group];
  const last = group?.steps[Number(state.step)]?.match_count;
  if (last === undefined) return;
  const step = Number(state.step);
  if (key === "ArrowDown" && state.change < last) go({ change: state.change + 1 });
  if (key === "ArrowUp" && state.change > 0) go({ change: state.change - 1 });
  if (key === "ArrowRight" && step + 1 < group.steps.length) go({ step: step + 1, change: 0 });
  if (key === "ArrowLeft" && step > 0) go({ step: step - 1, change: 0 });
}

// ---- the timeline

async function showTimeline() {
  if (!timeline.profile) timeline.show(unpack(await (await ask("/api/profile")).arrayBuffer()));
  else timeline.draw();
}

// ---- start

byId("tab-rewrites").onclick = () => go({});
byId("tab-timeline").onclick = () => go({ tab: "timeline" });
byId("filter").oninput = listGroups;
byId("fit").onclick = () => graphView.fit();
for (const button of document.querySelectorAll("[data-view]")) {
  button.onclick = () => { state.view = button.dataset.view; if (state.shown) showView(); };
}
window.addEventListener("hashchange", arrive);
window.addEventListener("keydown", event => {
  if (event.key.startsWith("Arrow") && event.target.tagName !== "INPUT") { event.preventDefault(); moveBy(event.key); }
});
tell("loading");
state.groups = await askJson("/api/groups");
state.group = 0;
if (!state.groups.length && !location.hash) location.hash = "timeline";
else await arrive();
