// The shares: all are listed, those that were added with Frevo can be changed.

import { ask, button, choice, el, field, panel, say, table } from "./dom.js";
import { change, query } from "./api.js";
import * as benchmark from "./benchmark.js";

// Returns the settings of a form, each as a name and a value.
function settings(data) {
  const lines = data.get("more").split("\n").map((line) => line.trim()).filter((line) => line !== "");
  const more = lines.map((line) => {
    const at = line.indexOf("=");
    if (at < 1) throw new Error(`"${line}" is not of the form "name = value"`);
    return [line.slice(0, at).trim(), line.slice(at + 1).trim()];
  });
  const access = data.get("access");
  return [...(access === "" ? [] : [["read only", access]]), ...more];
}

function more() {
  return el("label", {}, el("span", {}, "Further parameters as in smb.conf, one in each line"),
    el("textarea", { name: "more", spellcheck: "false", placeholder: "valid users = ann, bob" }));
}

function add(again) {
  ask("Add a share", [
    field("Name", { name: "name", required: true, maxlength: 80 }),
    field("Directory, which must exist", { name: "path", required: true, placeholder: "/srv/files" }),
    field("Comment", { name: "comment" }),
    choice("Access", "access", [["no", "read and write"], ["yes", "read only"]]),
    more(),
  ], "Add", async (data) => {
    const [name, path, comment] = ["name", "path", "comment"].map((key) => data.get(key));
    say(await change("share.add", { name, path, comment, settings: settings(data) }));
    await again();
  });
}

function edit(share, again) {
  ask(`Change ${share.name}`, [
    field("Directory", { name: "path", required: true, value: share.path }),
    field("Comment", { name: "comment", value: share.comment }),
    choice("Access", "access", [["", "as before"], ["no", "read and write"], ["yes", "read only"]]),
    more(),
    el("p", { class: "quiet" }, "Connected clients keep the former settings until they connect again."),
  ], "Change", async (data) => {
    const changed = (key) => (data.get(key) === share[key] ? null : data.get(key));
    const body = { name: share.name, path: changed("path"), comment: changed("comment"), settings: settings(data) };
    say(await change("share.set", body));
    await again();
  });
}

function remove(share, again) {
  ask(`Remove ${share.name}?`, el("p", {}, "Its clients are disconnected, and its ACL is removed. The files stay."), "Remove",
    async () => {
      say(await change("share.remove", { name: share.name }));
      await again();
    }, true);
}

export async function show(place, isPoll) {
  const shares = await query("shares", undefined, isPoll);
  const again = () => show(place);
  const origin = (share) => (share.added ? "Frevo" : share.file ? `${share.file}:${share.line}` : "command line");
  place.replaceChildren(
    el("h1", {}, "Shares"),
    panel("All shares", button("Add a share", () => add(again), "main"), table("Shares", [
      ["Name", (share) => share.name, "wrap"],
      ["Directory", (share) => share.path, "wrap"],
      ["Comment", (share) => share.comment, "wrap"],
      ["Defined by", origin],
      ["", (share) => [button("Benchmark", () => benchmark.start(share.name), "", `Benchmark of ${share.name}`), share.added ? [
        button("Change", () => edit(share, again), "", `Change ${share.name}`),
        button("Remove", () => remove(share, again), "danger", `Remove ${share.name}`),
      ] : el("span", { class: "quiet" }, " only in its file")], "actions"],
    ], shares, "There are no shares.")),
    benchmark.panelOf(),
    el("p", { class: "quiet" }, "Shares of smb.conf are never changed here. Added shares are in a file of Frevo's state directory."));
}
