// Logon through an OpenID Connect issuer, and the page on which users set their own password.

import { button, el, field } from "./dom.js";
import * as api from "./api.js";

// Kept for this tab and port, so that only the page that has begun a logon finishes it.
const TICKET = "frevo-openid";
const PASSWORD = { type: "password", autocomplete: "new-password", required: true, maxlength: 1024 };

let own = false;
let again = () => {};

// Whether the session is that of a user who only sets their own password.
export function isOwn() {
  return own;
}

export function leave() {
  own = false;
}

// Adds the logon to the form if there is an issuer.
export async function offer(form, wrong) {
  const { issuer } = await api.query("openid/issuer", undefined, true).catch(() => ({}));
  if (!issuer) return;
  form.append(button(`Log on through ${new URL(issuer).host}`, async (begin) => {
    begin.disabled = true;
    wrong.replaceChildren();
    try {
      const { url, ticket } = await api.change("openid/begin");
      sessionStorage.setItem(TICKET, ticket);
      location.assign(url);
    } catch (error) {
      wrong.replaceChildren(error.message);
      begin.disabled = false;
    }
  }));
}

// Finishes a logon if the issuer has returned the browser. Returns whether it has.
export async function start(admit, logOn) {
  again = logOn;
  if (!location.pathname.endsWith("/openid")) return false;
  const answer = new URLSearchParams(location.search);
  // The code does not stay in the history.
  history.replaceState(null, "", "./");
  const ticket = sessionStorage.getItem(TICKET) ?? "";
  sessionStorage.removeItem(TICKET);
  const [state, code] = [answer.get("state"), answer.get("code")];
  if (!state || !code) {
    // Its text is not shown, because any page can write it into a link.
    logOn("The issuer has not logged you on.");
    return true;
  }
  try {
    const begun = await api.change("openid/finish", { state, code, iss: answer.get("iss"), ticket });
    api.keep(begun.token);
    if (begun.own) show(begun.name);
    else admit(begun.name);
  } catch (error) {
    logOn(error.message);
  }
  return true;
}

export async function session() {
  show((await api.query("openid/session", undefined, true)).name);
}

export async function logOff() {
  await api.change("openid/logoff");
  api.keep("");
}

function show(name) {
  own = true;
  document.title = "Password - Frevo console";
  document.getElementById("header").hidden = false;
  document.getElementById("nav").replaceChildren();
  document.getElementById("who").replaceChildren(name);
  const wrong = el("p", { class: "bad", role: "alert" });
  const submit = el("button", { type: "submit", class: "main" }, "Set the password");
  const form = el("form", { class: "panel logon" }, el("h1", {}, "Your password"),
    el("p", { class: "quiet" }, "With it, you connect to the shares of this server."),
    field("New password", { name: "password", ...PASSWORD }),
    field("Repeat the password", { name: "repeated", ...PASSWORD }), submit, wrong);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const data = new FormData(form);
    wrong.replaceChildren();
    if (data.get("password") !== data.get("repeated")) {
      wrong.replaceChildren("The passwords differ.");
      return;
    }
    submit.disabled = true;
    try {
      done(await api.change("openid/password", { password: data.get("password") }));
    } catch (error) {
      wrong.replaceChildren(error.message);
    } finally {
      submit.disabled = false;
    }
  });
  document.getElementById("main").replaceChildren(form);
  form.elements.password.focus();
}

// The session has ended with the old password.
function done(text) {
  api.keep("");
  document.getElementById("header").hidden = true;
  document.getElementById("main").replaceChildren(el("section", { class: "panel logon" },
    el("h1", {}, "The password is set"), el("p", {}, text), button("Log on again", () => again())));
}
