// What is wrong: the health of the server, and the warnings of `frevo check` with remedies.

import { ask, button, el, panel, say } from "./dom.js";
import { change, query } from "./api.js";

function problem(kind, level, message, ...more) {
  return el("div", { class: `problem ${kind}` }, el("p", {}, el("span", { class: "level" }, `${level}: `), message),
    more.filter((text) => text).map((text) => el("p", {}, text)));
}

function ofCheck(found) {
  return problem(found.severity, found.severity, found.message, found.remedy && `Remedy: ${found.remedy}`,
    [found.subject, found.place].filter((text) => text).join(", "));
}

function reload() {
  ask("Read the configuration again?", el("p", {}, "Clients stay connected. A configuration with errors is not used."), "Reload",
    async () => say(await change("reload", {})));
}

export async function show(place, isPoll) {
  const [health, check] = await Promise.all([query("health", undefined, isPoll), query("check", undefined, isPoll)]);
  const faults = health.faults.map((fault) => problem("error", fault.fault, fault.text));
  const problems = check.problems.filter((found) => found.severity !== "note");
  const notes = check.problems.length - problems.length;
  place.replaceChildren(
    el("h1", {}, "Health"),
    panel("Server", [], el("p", {}, health.ready ? el("span", { class: "good" }, "Clients are served.") : el("span", { class: "bad" }, "Clients are not served.")), faults),
    panel(`Configuration: ${check.file}`, button("Reload", reload), problems.map(ofCheck),
      problems.length === 0 ? el("p", { class: "good" }, "No errors and no warnings.") : [],
      notes > 0 ? el("p", { class: "quiet" }, `${notes} notes; frevo check shows them.`) : []));
}
