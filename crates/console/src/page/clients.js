// Sessions, their connected shares, open files and locks.

import { age, ask, button, el, panel, say, table } from "./dom.js";
import { change, query } from "./api.js";

let filter = "";

function close(kind, id, what, warning, again) {
  ask(`Close ${what}?`, el("p", {}, warning), "Close", async () => {
    say(await change("close", { kind, id }));
    await again();
  }, true);
}

export async function show(place, isPoll) {
  const now = await query("clients", undefined, isPoll);
  const again = () => show(place);
  const since = (row) => age(now.taken - row.since);
  const users = new Map(now.sessions.map((row) => [row.session, row.user || row.kind]));
  const user = (row) => users.get(row.session) ?? (row.kept === null ? "" : "disconnected");
  const matches = (row) => filter === "" || JSON.stringify([Object.values(row), user(row)]).toLowerCase().includes(filter);
  const cut = (shown, total) => (total > shown ? el("p", { class: "quiet" }, `The first ${shown} of ${total} are shown.`) : []);
  const search = el("input", { type: "search", class: "filter", "aria-label": "Filter by any text", placeholder: "Filter", value: filter });
  search.addEventListener("input", () => {
    filter = search.value.toLowerCase();
    body.replaceChildren(...sections());
  });
  const sections = () => [
    panel(`Sessions (${now.total.sessions})`, [], table("Sessions", [
      ["User", (row) => row.user || row.kind, "wrap"],
      ["Address", (row) => row.address],
      ["Machine", (row) => row.workstation],
      ["Dialect", (row) => row.dialect],
      ["Encryption", (row) => row.encryption ?? el("span", { class: "quiet" }, row.signing ? "signed" : "no")],
      ["Shares", (row) => now.trees.filter((tree) => tree.session === row.session).map((tree) => tree.share).join(", "), "wrap"],
      ["Since", since, "number"],
      ["", (row) => button("Close", () => close("session", row.session, `the session of ${row.user || row.kind}`,
        "Its files are closed, also those kept for a client that lost its connection. Data that the client has only in its cache is lost.", again),
      "danger", `Close the session of ${row.user}`), "actions"],
    ], now.sessions.filter(matches), "No client has a session."), cut(now.sessions.length, now.total.sessions)),
    panel(`Open files (${now.total.opens})`, [], table("Open files", [
      ["Share", (row) => row.share],
      ["Path", (row) => row.path || "/", "wrap"],
      ["User", user],
      ["Cache", (row) => row.caching],
      ["Since", since, "number"],
      ["", (row) => button("Close", () => close("file", row.id, `${row.path || "the root"} in ${row.share}`,
        "Data that the client has only in its cache is lost.", again), "danger", `Close ${row.path} in ${row.share}`), "actions"],
    ], now.opens.filter(matches), "No file is open."), cut(now.opens.length, now.total.opens)),
    panel(`Locks (${now.total.locks})`, [], table("Locks", [
      ["Share", (row) => row.share],
      ["Path", (row) => row.path, "wrap"],
      ["User", user],
      ["Bytes", (row) => `${row.offset} + ${row.length}`],
      ["Kind", (row) => (row.exclusive ? "exclusive" : "shared")],
    ], now.locks.filter(matches), "No range is locked."), cut(now.locks.length, now.total.locks)),
  ];
  const body = el("div", {}, sections());
  // A poll must not take the focus from an administrator who types.
  if (isPoll && place.contains(document.activeElement) && document.activeElement.type === "search") {
    place.lastElementChild.replaceWith(body);
    return;
  }
  place.replaceChildren(el("h1", {}, "Clients"), el("p", {}, search), body);
}
