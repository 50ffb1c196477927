// Previous versions of a file or a directory: snapshots, as clients see them.

import { ask, button, check, el, field, say, sheet, size, table, time } from "./dom.js";
import { change, query } from "./api.js";

// Restores the file `path` of the share as it was at `moment`.
export function restore(share, path, moment, again) {
  ask(`Restore ${path.split("/").at(-1)} of ${time(moment)}`, [
    field("Path in the share; its directory must exist", { name: "to", required: true, value: path }),
    check("Replace the file if one has this path. Its present content is lost", "replace", false),
  ], "Restore", async (data) => {
    const replace = data.get("replace") !== null;
    say(await change("version.restore", { share, path, moment, to: data.get("to"), replace }));
    await again();
  });
}

// Lists the versions of a path. `open` is called with the time of a version of a directory.
export async function list(share, path, open, again) {
  const found = await query("versions", JSON.stringify({ share, path })).catch((error) => say(error.message, true));
  if (!found) return;
  const { versions, snapshots, looked_at: lookedAt } = found;
  const action = (version, close) => () => {
    close();
    if (version.directory) open(version.moment);
    else restore(share, path, version.moment, again);
  };
  sheet(`Previous versions of ${path || share}`, (close) => [
    table("Previous versions", [
      ["Snapshot", (version) => time(version.moment)],
      ["Modified", (version) => time(version.modified), "number"],
      ["Size", (version) => (version.directory ? "" : size(version.size)), "number"],
      ["", (version) => button(version.directory ? "Open" : "Restore", action(version, close), "",
        `${version.directory ? "Open" : "Restore"} the version of ${time(version.moment)}`), "actions"],
    ], versions, "No snapshot has it."),
    el("p", { class: "quiet" }, lookedAt < snapshots ? `The newest ${lookedAt} of ${snapshots} snapshots were looked at. ` : "",
      "Equal versions of a file are shown once."),
  ]);
}
