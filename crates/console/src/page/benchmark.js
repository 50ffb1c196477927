// A benchmark of a share, one at a time, and the report of the last one.

import { ask, button, choice, el, field, panel, say, time } from "./dom.js";
import { change, query } from "./api.js";

const PAUSE = 2000;
const KINDS = { large: "Large files", small: "Small files" };
let place = el("div");

export function start(share) {
  ask(`Benchmark of ${share}`, [
    choice("Load", "kind", [["large", "Large files: two of 64 MiB, read and written"], ["small", "Small files: 600 of 16 KiB, created, read and deleted"]]),
    field("Account, which must be able to write", { name: "user", required: true, autocapitalize: "none", maxlength: 256 }),
    field("SMB password of the account", { name: "password", type: "password", maxlength: 1024 }),
    field("Port of the server on this host", { name: "port", type: "number", required: true, min: 1, max: 65535, value: 445 }),
    el("p", { class: "quiet" }, "The server is busy for about half a minute, three minutes at most. The files are in a directory of their own, which is removed."),
  ], "Start", async (data) => {
    const [kind, user, password] = ["kind", "user", "password"].map((key) => data.get(key));
    say(await change("benchmark.start", { share, kind, user, password, port: Number(data.get("port")) }));
    await show(place);
  });
}

function report(last) {
  return [
    el("p", {}, `${KINDS[last.kind]} in ${last.share} as ${last.user}, ended ${time(last.ended)}`),
    last.failure === null ? [] : el("p", { class: "bad" }, `It failed: ${last.failure}`),
    last.text === "" ? [] : el("pre", { tabindex: "0", role: "region", "aria-label": "Report of the benchmark" }, last.text),
  ];
}

async function show(mine) {
  const now = await query("benchmark", undefined, true).catch(() => null);
  if (mine !== place || now === null) return;
  const { running, last, missing } = now;
  if (running !== null) {
    const stop = button("Stop", async () => {
      say(await change("benchmark.stop", {}).catch((error) => error.message));
      await show(mine);
    }, "danger", "Stop the benchmark");
    mine.replaceChildren(panel("Benchmark", stop, el("p", {},
      `${KINDS[running.kind]} in ${running.share} as ${running.user}: runs for ${running.seconds} s`)));
    setTimeout(() => mine.isConnected && show(mine), PAUSE);
  } else if (last !== null) {
    mine.replaceChildren(panel("Last benchmark", [], report(last)));
  } else if (missing !== null) {
    mine.replaceChildren(panel("Benchmark", [], el("p", { class: "quiet" }, missing)));
  } else {
    mine.replaceChildren();
  }
}

// Returns the place of the benchmark, which is filled when the console has answered.
export function panelOf() {
  place = el("div");
  show(place);
  return place;
}
