// Throughput, latency and counts of the last hour, the cost of shares, logon failures and limits.

import { age, count, duration, el, panel, size, table } from "./dom.js";
import { history, query } from "./api.js";
import { plot } from "./plot.js";

const HOUR = 3600;
let samples = [];
let series = [];

async function fetchHistory() {
  const after = samples.at(-1)?.[0] ?? 0;
  const more = await history(after);
  series = more.series;
  samples = samples.concat(more.samples).filter(([at]) => at > Date.now() / 1000 - HOUR - 60);
  return more.interval * 2.5;
}

function line(name, key) {
  const at = series.indexOf(key) + 1;
  return { name, points: at === 0 ? [] : samples.map((sample) => [sample[0], sample[at]]) };
}

function plots(gap) {
  const rate = (value) => `${size(value)}/s`;
  const draw = (title, lines, format) => plot(title, lines, format, HOUR, gap);
  return el("div", { class: "grid" },
    draw("Throughput", [line("read", "read"), line("written", "written")], rate),
    draw("Requests", [line("per second", "requests")], count),
    draw("Latency", [line("mean", "mean"), line("99 %", "p99")], duration),
    draw("Sessions", [line("sessions", "sessions"), line("connections", "connections")], count),
    draw("Open files and locks", [line("open", "opens"), line("locks", "locks")], count),
    draw("Logons refused over SMB", [line("per minute", "refused")], count));
}

function limits(held) {
  const shown = (usage) => (usage.unit === "bytes" ? size : count);
  const meter = (row) => el("meter", {
    min: 0, max: row.bound, low: row.bound * 0.7, high: row.bound * 0.9, optimum: 0, value: row.held,
    "aria-label": `${row.name}: ${Math.round((100 * row.held) / row.bound)} % of the limit`,
  });
  const part = (row) => el("span", { class: row.held > 0.9 * row.bound ? "bad" : row.held > 0.7 * row.bound ? "warn" : "" },
    `${Math.round((100 * row.held) / row.bound)} %`);
  const bytes = (kind) => (row) => ({ ...row, unit: "bytes", name: `${kind} ${row.name}` });
  const rows = [
    { name: "memory", unit: "bytes", ...held.memory },
    ...held.resources,
    ...held.users.map(bytes("memory of user")),
    ...held.addresses.map(bytes("memory of client")),
  ].filter((row) => row.bound > 0).sort((a, b) => b.held / b.bound - a.held / a.bound).slice(0, 12);
  return table("Limits", [
    ["What", (row) => row.name, "wrap"],
    ["Held", (row) => shown(row)(row.held), "number"],
    ["Limit", (row) => shown(row)(row.bound), "number"],
    ["Used", part, "number"],
    ["", meter, "meter"],
  ], rows, "Nothing is held.");
}

export async function show(place, isPoll) {
  const [gap, now] = await Promise.all([fetchHistory(), query("overview", undefined, isPoll)]);
  document.getElementById("host").replaceChildren(`on ${now.host}`);
  const number = (name, value) => el("div", {}, el("dt", {}, name), el("dd", {}, value));
  const failures = Object.entries(now.refused).sort(([, a], [, b]) => b - a);
  place.replaceChildren(
    el("h1", {}, "Overview"),
    el("dl", { class: "numbers" },
      number("Sessions", count(now.sessions)),
      number("Connections", count(now.connections)),
      number("Open files", count(now.opens)),
      number("Locks", count(now.locks)),
      number("Shares", count(now.configured)),
      number("Up", age(now.taken - now.started))),
    plots(gap),
    panel("Cost of shares in the last hour", [], table("Cost of shares", [
      ["Share", (row) => row.name, "wrap"],
      ["Requests", (row) => count(row.requests), "number"],
      ["Failed", (row) => count(row.failed), "number"],
      ["Read", (row) => size(row.read), "number"],
      ["Written", (row) => size(row.written), "number"],
      ["Server time", (row) => duration(row.seconds), "number"],
    ], now.costs.shares, "No client has used a share."),
    el("p", { class: "quiet" }, now.costs.since < HOUR - 60 ? `Counted for ${age(now.costs.since)}. ` : "",
      "Server time is that of the requests, with their waiting for disks and for other clients.")),
    panel("Limits, the nearest first", [], limits(now.held)),
    panel("Logons refused over SMB since the start", [], table("Refused logons", [
      ["Reason", ([status]) => status, "wrap"],
      ["Number", ([, number]) => count(number), "number"],
    ], failures, "No logon was refused.")));
}
