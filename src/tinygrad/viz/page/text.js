// Text with terminal colours, and elements built from data. Nothing here parses HTML, so no recording can inject any.

const CODE = /\x1b\[(\d*)(?:;\d+)*m/g;

/** Pieces of a string: {text, color}, color being an SGR code or null. */
export function colorRuns(text) {
  const runs = [];
  let color = null, at = 0;
  for (const found of text.matchAll(CODE)) {
    if (found.index > at) runs.push({ text: text.slice(at, found.index), color });
    color = found[1] === "" || found[1] === "0" ? null : Number(found[1]);
    at = found.index + found[0].length;
  }
  if (at < text.length) runs.push({ text: text.slice(at), color });
  return runs;
}

/** The string without colours. */
export function plain(text) {
  return text.replace(CODE, "");
}

/** An element with properties and children (strings become text). */
export function element(name, properties = {}, ...children) {
  const made = document.createElement(name);
  Object.assign(made, properties);
  made.append(...children);
  return made;
}

/** Coloured text as spans. */
export function colored(text) {
  return colorRuns(text).map(run =>
    run.color === null ? document.createTextNode(run.text) : element("span", { className: `c${run.color}`, textContent: run.text }));
}

/** Microseconds with a unit. */
export function duration(us) {
  if (us >= 1e6) return `${(us / 1e6).toFixed(2)} s`;
  if (us >= 1e3) return `${(us / 1e3).toFixed(2)} ms`;
  return `${us.toFixed(us < 10 ? 2 : 1)} us`;
}

/** Bytes with a unit. */
export function size(bytes) {
  const units = ["B", "KB", "MB", "GB", "TB"];
  let unit = 0;
  while (bytes >= 1000 && unit + 1 < units.length) { bytes /= 1000; unit += 1; }
  return `${bytes.toFixed(unit ? 2 : 0)} ${units[unit]}`;
}
