// The page: logon, navigation, and the page that is shown.

import { el, field, say } from "./dom.js";
import * as api from "./api.js";
import * as overview from "./overview.js";
import * as clients from "./clients.js";
import * as shares from "./shares.js";
import * as files from "./files.js";
import * as users from "./users.js";
import * as health from "./health.js";
import * as openid from "./openid.js";

// Pages that show the present are read again after this time.
const PAGES = {
  overview: ["Overview", overview, 10000],
  clients: ["Clients", clients, 5000],
  shares: ["Shares", shares],
  files: ["Files", files],
  users: ["Users", users],
  health: ["Health", health],
};

const main = document.getElementById("main");
const header = document.getElementById("header");
let timer;
let turn = 0;

function logOn(why) {
  openid.leave();
  clearTimeout(timer);
  turn += 1;
  header.hidden = true;
  document.querySelectorAll("dialog").forEach((dialog) => dialog.remove());
  const wrong = el("p", { class: "bad", role: "alert" }, why ?? "");
  const submit = el("button", { type: "submit", class: "main" }, "Log on");
  const form = el("form", { class: "panel logon" }, el("h1", {}, "Frevo console"),
    field("Name", { name: "name", required: true, autocomplete: "username", autocapitalize: "none", maxlength: 256 }),
    field("Password", { name: "password", type: "password", required: true, autocomplete: "current-password", maxlength: 1024 }),
    submit, wrong,
    el("p", { class: "quiet" }, "A UNIX administrator of this host, or an account in admin users."));
  openid.offer(form, wrong);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const data = new FormData(form);
    submit.disabled = true;
    wrong.replaceChildren();
    try {
      admit(await api.logOn(data.get("name"), data.get("password")));
    } catch (error) {
      wrong.replaceChildren(error.message);
    } finally {
      submit.disabled = false;
    }
  });
  main.replaceChildren(form);
  form.elements.name.focus();
}

function admit(name) {
  openid.leave();
  header.hidden = false;
  document.getElementById("who").replaceChildren(name);
  go();
}

async function refresh(module, place, pause, mine, isPoll) {
  try {
    // An administrator who fills in a form is not disturbed.
    if (!isPoll || (!document.hidden && !document.querySelector("dialog"))) await module.show(place, isPoll);
  } catch (error) {
    if (mine !== turn) return;
    if (isPoll) say(error.message, true);
    else place.replaceChildren(el("p", { class: "bad", role: "alert" }, error.message));
  }
  if (mine === turn && pause) timer = setTimeout(() => refresh(module, place, pause, mine, true), pause);
}

function go() {
  clearTimeout(timer);
  turn += 1;
  const name = location.hash.slice(1) in PAGES ? location.hash.slice(1) : "overview";
  const [title, module, pause] = PAGES[name];
  document.title = `${title} - Frevo console`;
  document.getElementById("nav").replaceChildren(...Object.entries(PAGES).map(([key, [text]]) =>
    el("a", { href: `#${key}`, "aria-current": key === name ? "page" : undefined }, text)));
  // Each page has its own place, so that a result that arrives when another one is shown is not seen.
  const place = el("div", {}, el("p", { class: "quiet" }, "Loading"));
  main.replaceChildren(place);
  refresh(module, place, pause, turn, false);
}

addEventListener("hashchange", () => {
  if (!header.hidden && location.hash !== "#main" && !openid.isOwn()) go();
});
document.getElementById("logoff").addEventListener("click", async () => {
  await (openid.isOwn() ? openid.logOff() : api.logOff()).catch(() => {});
  logOn();
});
api.onEnd(() => logOn("The session has ended."));
openid.start(admit, logOn).then((isDone) => {
  if (!isDone) api.session().then(admit, () => openid.session().catch(() => logOn()));
});
