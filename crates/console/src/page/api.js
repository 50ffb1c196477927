// Requests to the console.

// Kept for this origin, which includes the port; a cookie goes to every port of the host.
const KEY = "frevo-token";
let whenEnded = () => {};

export function onEnd(action) {
  whenEnded = action;
}

function kept() {
  return sessionStorage.getItem(KEY) ?? "";
}

async function send(path, options) {
  const token = kept();
  const headers = { "X-Frevo-Token": token, ...options?.headers };
  const response = await fetch(`api/${path}`, { credentials: "same-origin", redirect: "error", ...options, headers });
  const value = await response.json().catch(() => ({ error: `the console answered ${response.status}` }));
  if (response.ok) return value;
  // A late answer to a request of an earlier session does not end the present one.
  if (response.status === 401 && path !== "logon" && path !== "session" && token === kept()) {
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

export function keep(token) {
  sessionStorage.setItem(KEY, token);
}

export async function logOff() {
  const token = kept();
  await post("logoff");
  if (token === kept()) sessionStorage.removeItem(KEY);
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
