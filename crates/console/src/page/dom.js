// Makes elements. Texts become text nodes only, so that no name of a file or a user is ever parsed as HTML.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children.flat(Infinity)) {
    if (child === undefined || child === null || child === false) continue;
    element.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
  return element;
}

export function el(tag, attributes, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

export function svg(tag, attributes, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

export function panel(title, actions, ...content) {
  return el("section", { class: "panel" }, el("div", { class: "top" }, el("h2", {}, title), actions ?? []), content);
}

// A table. A column is a title, a function that returns the content of a cell, and the class of its cells.
export function table(label, columns, rows, empty) {
  if (rows.length === 0) return el("p", { class: "quiet" }, empty);
  // The roles are those of the elements, which lose them where the style makes a row of cells a card.
  const head = el("tr", { role: "row" }, columns.map(([title, , kind]) =>
    el("th", { scope: "col", role: "columnheader", class: kind }, title === "" ? el("span", { class: "hidden-text" }, kind === "actions" ? "Actions" : "Share of the limit") : title)));
  const body = rows.map((row) => el("tr", { role: "row" }, columns.map(([title, cell, kind]) =>
    el("td", { role: "cell", class: kind, "data-title": title }, cell(row)))));
  const kind = columns.some(([, , kind]) => kind === "actions") ? "cards" : undefined;
  return el("div", { class: "table", tabindex: "0", role: "region", "aria-label": label },
    el("table", { role: "table", class: kind }, el("thead", { role: "rowgroup" }, head), el("tbody", { role: "rowgroup" }, body)));
}

export function button(text, action, kind, label) {
  const made = el("button", { type: "button", class: kind, "aria-label": label }, text);
  made.addEventListener("click", () => action(made));
  return made;
}

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

export function size(bytes) {
  let unit = 0;
  while (bytes >= 1024 && unit < UNITS.length - 1) {
    bytes /= 1024;
    unit += 1;
  }
  return `${unit === 0 || bytes >= 100 ? Math.round(bytes) : bytes.toFixed(1)} ${UNITS[unit]}`;
}

export function count(number) {
  return number >= 100 || Number.isInteger(number) ? Math.round(number).toLocaleString("en") : number.toFixed(1);
}

export function time(seconds) {
  return new Date(seconds * 1000).toLocaleString(undefined, { dateStyle: "short", timeStyle: "medium" });
}

export function age(seconds) {
  if (seconds < 90) return `${Math.max(0, Math.round(seconds))} s`;
  if (seconds < 5400) return `${Math.round(seconds / 60)} min`;
  if (seconds < 172800) return `${Math.round(seconds / 3600)} h`;
  return `${Math.round(seconds / 86400)} d`;
}

export function duration(seconds) {
  return seconds >= 1 ? `${seconds.toFixed(1)} s` : `${(seconds * 1000).toPrecision(2)} ms`;
}

let timer;

// Shows the result of an action.
export function say(text, isBad) {
  const message = document.getElementById("message");
  message.className = isBad ? "bad" : "";
  message.replaceChildren(text);
  clearTimeout(timer);
  timer = setTimeout(() => message.replaceChildren(), isBad ? 12000 : 5000);
}

// Asks with a form. `fields` are elements, `submit` gets the data and throws if it fails. The dialog stays open then.
export function ask(title, fields, label, submit, isDanger) {
  const wrong = el("p", { class: "bad", role: "alert" });
  const done = el("button", { type: "submit", class: isDanger ? "danger" : "main" }, label);
  const cancel = button("Cancel", () => dialog.close());
  const form = el("form", {}, el("h2", { id: "dialog-title" }, title), fields, wrong,
    el("div", { class: "buttons" }, cancel, done));
  const dialog = el("dialog", { "aria-labelledby": "dialog-title" }, form);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    done.disabled = true;
    try {
      await submit(new FormData(form));
      dialog.close();
    } catch (error) {
      wrong.replaceChildren(error.message);
    } finally {
      done.disabled = false;
    }
  });
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}

// Shows a dialog without a form. `content` gets the function that closes it.
export function sheet(title, content) {
  const close = () => dialog.close();
  const dialog = el("dialog", { "aria-labelledby": "dialog-title" }, el("h2", { id: "dialog-title" }, title));
  dialog.append(...[content(close)].flat(), el("div", { class: "buttons" }, button("Close", close)));
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}

export function field(label, attributes) {
  return el("label", {}, el("span", {}, label), el("input", { autocomplete: "off", ...attributes }));
}

export function choice(label, name, options) {
  return el("label", {}, el("span", {}, label),
    el("select", { name }, options.map(([value, text]) => el("option", { value }, text))));
}

export function check(label, name, isOn) {
  return el("label", { class: "check" }, el("input", { type: "checkbox", name, checked: isOn }), el("span", {}, label));
}
