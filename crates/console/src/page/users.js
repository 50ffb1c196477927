// The accounts that may log on over SMB.

import { ask, button, el, field, panel, say, table, time } from "./dom.js";
import { change, query } from "./api.js";

const PASSWORD = { type: "password", autocomplete: "new-password", required: true };

function passwords() {
  return [field("Password", { name: "password", ...PASSWORD }), field("Repeat the password", { name: "repeated", ...PASSWORD })];
}

function password(data) {
  if (data.get("password") !== data.get("repeated")) throw new Error("the passwords differ");
  return data.get("password");
}

function add(again) {
  ask("Add a user", [
    field("Name, also of the UNIX user", { name: "name", required: true }),
    field("Full name", { name: "full_name" }),
    field("Number of the UNIX user, if it has another name", { name: "uid", inputmode: "numeric", pattern: "[0-9]*" }),
    passwords(),
  ], "Add", async (data) => {
    const uid = data.get("uid") === "" ? null : Number(data.get("uid"));
    say(await change("user.add", { name: data.get("name"), full_name: data.get("full_name"), uid, password: password(data) }));
    await again();
  });
}

function setPassword(user, again) {
  ask(`Set the password of ${user.name}`, passwords(), "Set", async (data) => {
    say(await change("user.passwd", { name: user.name, password: password(data) }));
    await again();
  });
}

function enable(user, again) {
  const word = user.disabled ? "Enable" : "Disable";
  ask(`${word} ${user.name}?`, el("p", {}, user.disabled ? "The user may log on again." : "Further logons are refused. Sessions go on until they are closed."),
    word, async () => {
      say(await change("user.enable", { name: user.name, enabled: user.disabled }));
      await again();
    }, !user.disabled);
}

function remove(user, again) {
  ask(`Remove ${user.name}?`, el("p", {}, "The account and its password are removed. The UNIX user and the files stay."), "Remove",
    async () => {
      say(await change("user.delete", { name: user.name }));
      await again();
    }, true);
}

function state(user) {
  if (user.disabled) return el("span", { class: "quiet" }, "disabled");
  if (user.locked) return el("span", { class: "bad" }, "locked");
  if (!user.has_password) return el("span", { class: "warn" }, "no password");
  if (user.problem) return el("span", { class: "warn" }, user.problem);
  if (user.must_change) return el("span", { class: "warn" }, "password expired");
  return el("span", { class: "good" }, "ok");
}

// Where the shown accounts begin, and where those before them do.
let position = { from: "" };
let earlier = [];
let turn = 0;

// The search begins when nothing was typed for a moment.
function search(go) {
  const typed = el("input", { type: "search", class: "filter", "aria-label": "Names from", placeholder: "Names from", value: position.from ?? "" });
  let timer;
  typed.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(() => go({ from: typed.value }, []), 300);
  });
  return typed;
}

export async function show(place, isPoll) {
  turn += 1;
  const mine = turn;
  const shown = position;
  const { accounts: users, more } = await query("users", JSON.stringify(shown), isPoll);
  if (mine !== turn) return;
  // Another page may be shown meanwhile.
  const again = async () => {
    if (place.isConnected) await show(place);
  };
  const go = async (to, before) => {
    [position, earlier] = [to, before];
    await again();
    if ("from" in to) place.querySelector("input[type=search]")?.focus();
  };
  const turnOver = el("p", { class: "crumbs" },
    earlier.length > 0 ? button("Previous", () => go(earlier.at(-1), earlier.slice(0, -1))) : [],
    more ? button("Next", () => go({ after: users.at(-1).name }, [...earlier, shown])) : []);
  place.replaceChildren(
    el("h1", {}, "Users"),
    search(go),
    panel("Accounts", button("Add a user", () => add(again), "main"), table("Users", [
      ["Name", (user) => user.name, "wrap"],
      ["Full name", (user) => user.full_name, "wrap"],
      ["State", state],
      ["UNIX user", (user) => (user.unix_user ? `${user.unix_user} (${user.uid})` : "")],
      ["Password set", (user) => (user.password_last_set ? time(user.password_last_set) : "")],
      ["", (user) => [
        button("Password", () => setPassword(user, again), "", `Set the password of ${user.name}`),
        button(user.disabled ? "Enable" : "Disable", () => enable(user, again), "", `${user.disabled ? "Enable" : "Disable"} ${user.name}`),
        button("Remove", () => remove(user, again), "danger", `Remove ${user.name}`),
      ], "actions"],
    ], users, shown.from === "" ? "There are no accounts." : "There are no further accounts."), turnOver));
}
