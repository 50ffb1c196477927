// Line plots as SVG.

import { el, svg } from "./dom.js";

const WIDTH = 360;
const HEIGHT = 120;
const LEFT = 4;
const BOTTOM = 16;
const TOP = 12;

// A value above `most` with few digits.
function ceiling(most) {
  if (most <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(most));
  return [1, 2, 5, 10].map((step) => step * power).find((step) => step >= most);
}

// `lines` have a name, and points of time and value. A gap of more than `gap` seconds interrupts a line.
export function plot(title, lines, format, span, gap) {
  const all = lines.flatMap((line) => line.points);
  const end = all.length > 0 ? Math.max(...all.map(([at]) => at)) : Date.now() / 1000;
  const start = end - span;
  const top = ceiling(Math.max(0, ...all.map(([, value]) => value)));
  const x = (at) => LEFT + (WIDTH - 2 * LEFT) * Math.max(0, (at - start) / span);
  const y = (value) => HEIGHT - BOTTOM - (HEIGHT - BOTTOM - TOP) * (value / top);
  const path = (points) => {
    let last = -Infinity;
    return points.map(([at, value]) => {
      const place = `${x(at).toFixed(1)} ${y(value).toFixed(1)}`;
      // A line of no length is a dot, so that a single sample is seen.
      const step = at - last > gap ? `M${place}h0` : `L${place}`;
      last = at;
      return step;
    }).join("");
  };
  const clock = (at) => new Date(at * 1000).toLocaleTimeString(undefined, { hour: "2-digit", minute: "2-digit" });
  const grid = [0, 0.5, 1].map((part) =>
    svg("line", { class: "grid-line", x1: LEFT, x2: WIDTH - LEFT, y1: y(top * part), y2: y(top * part) }));
  const latest = (line) => line.points.at(-1)?.[1] ?? 0;
  const spoken = lines.map((line) => `${line.name} ${format(latest(line))}`).join(", ");
  const picture = svg("svg", {
    class: "plot", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img",
    "aria-label": `${title} of the last hour; now ${spoken}; scale up to ${format(top)}`,
  },
    grid,
    lines.map((line, at) => svg("path", { class: `line ${"ab"[at]}`, d: path(line.points) })),
    svg("text", { x: LEFT, y: TOP - 3 }, format(top)),
    svg("text", { x: LEFT, y: HEIGHT - 3 }, clock(start)),
    svg("text", { x: WIDTH - LEFT, y: HEIGHT - 3, "text-anchor": "end" }, clock(end)));
  const legend = el("div", { class: "legend" }, lines.map((line, at) =>
    el("span", {}, el("i", { class: "ab"[at] }), `${line.name} `, el("b", {}, format(latest(line))))));
  return el("section", { class: "panel" },
    el("div", { class: "top" }, el("h2", {}, title), legend), picture);
}
