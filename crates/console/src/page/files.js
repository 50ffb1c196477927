// The files of a share: a directory at a time, now or in a snapshot, the recycle bin, and Windows ACLs.

import { ask, button, el, field, panel, say, size, table, time } from "./dom.js";
import { change, query } from "./api.js";
import * as versions from "./versions.js";

// The directory that is shown next. What is shown has its own, so that an action never meets another file.
// With a moment, it is the directory in the snapshot of that time.
let wanted = { share: "", path: "", moment: null };
let turn = 0;

const join = ({ path }, name) => (path === "" ? name : `${path}/${name}`);

async function restore(shown, entry, bin, again) {
  const { share } = shown;
  const from = join(shown, entry.name);
  // The directories of users are the first ones in the bin if it has any, which only the administrator knows.
  const proposed = from.slice(bin.length + 1);
  ask(`Restore ${entry.name}`, [
    field("New path in the share; its directory must exist", { name: "to", required: true, value: proposed }),
    el("p", { class: "quiet" }, "No file is replaced."),
  ], "Restore", async (data) => {
    say(await change("file.restore", { share, from, to: data.get("to") }));
    await again();
  });
}

async function acl(directory, name) {
  const { share } = directory;
  const of = name === undefined ? directory.path : join(directory, name);
  const shown = await query("acl", JSON.stringify({ share, path: of })).catch((error) => say(error.message, true));
  if (!shown) return;
  const text = el("textarea", { name: "sddl", spellcheck: "false", required: true });
  text.value = shown.sddl ?? "";
  ask(`ACL of ${of || share}`, [
    el("p", { class: "quiet" }, `Source: ${shown.source}`),
    el("pre", { tabindex: "0", role: "region", "aria-label": "The ACL in words" }, shown.words.join("\n")),
    el("label", {}, el("span", {}, "Security descriptor (SDDL); only the parts that are present are set"), text),
    el("details", {}, el("summary", {}, "Underlying POSIX ACL"), el("pre", {}, shown.posix.join("\n"))),
  ], "Set", async (data) => {
    say(await change("acl.set", { share, path: of, sddl: data.get("sddl") }));
  });
}

export async function show(place, isPoll) {
  turn += 1;
  const mine = turn;
  const shares = await query("shares", undefined, isPoll);
  if (mine !== turn) return;
  // Another page may be shown meanwhile, which a result of this one must not end.
  const again = async () => {
    if (place.isConnected) await show(place);
  };
  if (!shares.some((known) => known.name === wanted.share)) wanted = { share: shares[0]?.name ?? "", path: "", moment: null };
  const shown = wanted;
  const { share, path, moment } = shown;
  const enter = (to, at = moment) => () => {
    wanted = { share, path: to, moment: at };
    again();
  };
  const select = el("select", { "aria-label": "Share" }, shares.map((known) =>
    el("option", { value: known.name, selected: known.name === share }, known.name)));
  select.addEventListener("change", () => {
    wanted = { share: select.value, path: "", moment: null };
    again();
  });
  const top = [el("h1", {}, "Files"), el("p", { class: "filter" }, select)];
  if (share === "") {
    place.replaceChildren(...top, el("p", { class: "quiet" }, "There are no shares."));
    return;
  }
  const asked = moment === null ? ["files", { share, path }] : ["version", { share, path, moment }];
  const listed = await query(asked[0], JSON.stringify(asked[1]), isPoll).catch((error) => error);
  if (mine !== turn) return;
  if (listed instanceof Error) {
    const back = path === "" && moment === null ? [] : button("Back to the top", enter("", null));
    place.replaceChildren(...top, el("p", { class: "bad", role: "alert" }, listed.message), back);
    return;
  }
  const parts = path === "" ? [] : path.split("/");
  const crumbs = el("p", { class: "crumbs" }, button(share, enter("")), parts.map((part, at) =>
    [" / ", button(part, enter(parts.slice(0, at + 1).join("/")))]));
  const rest = listed.total > listed.entries.length ? el("p", { class: "quiet" }, `${listed.entries.length} of ${listed.total} entries are shown. Links and names that are not UTF-8 are left out.`) : [];
  const columns = (actions) => [
    ["Name", (entry) => [
      entry.directory ? button(entry.name, enter(join(shown, entry.name)), "", `Open ${entry.name}`) : entry.name,
      entry.exists === false ? el("span", { class: "warn" }, " (deleted since)") : [],
    ], "wrap"],
    ["Size", (entry) => (entry.directory ? "" : size(entry.size)), "number"],
    ["Modified", (entry) => time(entry.modified), "number"],
    ["", actions, "actions"],
  ];
  if (moment !== null) {
    const actions = (entry) => (entry.directory ? [] : button("Restore",
      () => versions.restore(share, join(shown, entry.name), moment, again), "", `Restore ${entry.name}`));
    place.replaceChildren(...top, crumbs, panel(`As it was on ${time(moment)}`, button("Back to the present", enter(path, null)),
      table("Files", columns(actions), listed.entries, "The directory was empty."), rest));
    return;
  }
  const inBin = listed.bin !== null && (path === listed.bin || path.startsWith(`${listed.bin}/`));
  const former = (of) => versions.list(share, of, (at) => enter(of, at)(), again);
  const actions = [
    listed.bin !== null && !inBin ? button("Recycle bin", enter(listed.bin)) : [],
    listed.versions ? button("Previous versions", () => former(path)) : [],
    button("ACL of this directory", () => acl(shown)),
  ];
  place.replaceChildren(...top, crumbs, panel(inBin ? "Recycle bin" : "Entries", actions, table("Files", columns((entry) => [
    inBin && !entry.directory ? button("Restore", () => restore(shown, entry, listed.bin, again), "", `Restore ${entry.name}`) : [],
    listed.versions && !entry.directory ? button("Versions", () => former(join(shown, entry.name)), "", `Previous versions of ${entry.name}`) : [],
    button("ACL", () => acl(shown, entry.name), "", `ACL of ${entry.name}`),
  ]), listed.entries, "The directory is empty."), rest));
}
