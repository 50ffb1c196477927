// Requests to the console.

// Kept for this origin, which includes the port; a cookie goes to every port of the host.
const KEY = "frevo-token";
let whenEnded = () => {};

export function onEnd(action) {
  whenEnded = action;
}

async function send(path, options) {
  const headers = { "X-Frevo-Token": sessionStorage.getItem(KEY) ?? "", ...options?.headers };
  const response = await fetch(`api/${path}`, { credentials: "same-origin", redirect: "error", ...options, headers });
  const value = await response.json().catch(() => ({ error: `the console answered ${response.status}` }));
  if (response.ok) return value;
  if (response.status === 401 && path !== "logon") {
    sessionStorage.removeItem(KEY);
    whenEnded();
  }
  throw new Error(value.error ?? `the console answered ${response.status}`);
}

function post(path, body) {
  const headers = { "Content-Type": "application/json" };
  return send(path, { method: "POST", headers, body: JSON.stringify(body ?? {}) });
}

export async function session() {
  return (await send("session", { headers: { "X-Frevo-Poll": "1" } })).name;
}

export async function logOn(name, password) {
  const begun = await post("logon", { name, password });
  sessionStorage.setItem(KEY, begun.token);
  return begun.name;
}

export async function logOff() {
  await post("logoff");
  sessionStorage.removeItem(KEY);
}

// What an administrator asks for prolongs the session; a poll does not.
export function query(name, of, isPoll) {
  const path = of === undefined ? name : `${name}?of=${encodeURIComponent(of)}`;
  return send(path, isPoll ? { headers: { "X-Frevo-Poll": "1" } } : {});
}

export function history(after) {
  return send(`history?after=${after}`, { headers: { "X-Frevo-Poll": "1" } });
}

export function change(name, body) {
  return post(name, body);
}
