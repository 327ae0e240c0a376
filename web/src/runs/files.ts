/** Runs as files: out of the server, and into it. */

import { messageOf, request } from "../api/client";
import { notify } from "../ui/notices";

/** Gives the CSV to the browser as a download; a plain link could not send the API key. */
export async function exportRun(id: string, name: string): Promise<void> {
  const response = await request(`/api/runs/${encodeURIComponent(id)}/csv`);
  const url = URL.createObjectURL(await response.blob());
  const link = document.createElement("a");
  link.href = url;
  link.download = `${name.replace(/[^\w.-]+/g, "_").replace(/\.csv$/i, "") || "run"}.csv`;
  document.body.append(link);
  link.click();
  link.remove();
  window.setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

/** Sends files one by one; what the server refuses is said, with its reason. Returns how many it took. */
export async function importFiles(files: readonly File[]): Promise<number> {
  let done = 0;
  for (const file of files) {
    const name = file.name.replace(/\.csv$/i, "");
    try {
      await request(`/api/runs?name=${encodeURIComponent(name)}`, { method: "POST", text: await file.text() });
      done += 1;
    } catch (error) {
      notify(`${file.name}: ${messageOf(error)}`, "error");
    }
  }
  return done;
}
