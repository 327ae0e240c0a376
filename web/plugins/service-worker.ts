/** Writes `sw.js`: a service worker that knows the names of the built files, and nothing else. */

import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

import type { Plugin } from "vite";

const TEMPLATE = join(import.meta.dirname, "service-worker.template.js");

export function serviceWorker(): Plugin {
  return {
    name: "moestream-service-worker",
    apply: "build",
    generateBundle: {
      order: "post",
      handler(_options, bundle) {
        const hash = createHash("sha256");
        const names = ["/"];
        for (const name of Object.keys(bundle).sort()) {
          const file = bundle[name];
          if (file === undefined) continue;
          hash.update(name).update(file.type === "chunk" ? file.code : file.source);
          if (name !== "index.html") names.push(`/${name}`);
        }
        const folder = join(import.meta.dirname, "..", "public");
        for (const name of readdirSync(folder).sort()) {
          hash.update(name).update(readFileSync(join(folder, name)));
          names.push(`/${name}`);
        }
        const source = readFileSync(TEMPLATE, "utf8")
          .replace('"__VERSION__"', JSON.stringify(hash.digest("hex").slice(0, 16)))
          .replace('["__SHELL__"]', JSON.stringify(names));
        this.emitFile({ type: "asset", fileName: "sw.js", source });
      },
    },
  };
}
