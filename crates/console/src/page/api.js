// Requests to the console.

let token = "";
let whenEnded = () => {};

export function onEnd(action) {
  whenEnded = action;
}

async function send(path, options) {
  const response = await fetch(`api/${path}`, { credentials: "same-origin", redirect: "error", ...options });
  const value = await response.json().catch(() => ({ error: `the console answered ${response.status}` }));
  if (response.ok) return value;
  if (response.status === 401 && path !== "logon") whenEnded();
  throw new Error(value.error ?? `the console answered ${response.status}`);
}

function post(path, body) {
  const headers = { "Content-Type": "application/json", "X-Frevo-Token": token };
  return send(path, { method: "POST", headers, body: JSON.stringify(body ?? {}) });
}

function admit(session) {
  token = session.token;
  return session.name;
}

export async function session() {
  return admit(await send("session", { headers: { "X-Frevo-Poll": "1" } }));
}

export async function logOn(name, password) {
  return admit(await post("logon", { name, password }));
}

export async function logOff() {
  await post("logoff");
  token = "";
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
