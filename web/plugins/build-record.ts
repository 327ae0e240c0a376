/**
 * Writes `build.json` beside the built files: a hash of the sources they were made from, and one
 * of each file. A test of the Python package compares both, so that a forgotten build is caught on
 * machines without node.
 */

import { createHash } from "node:crypto";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join, relative, sep } from "node:path";

import type { Plugin } from "vite";

const ROOT = join(import.meta.dirname, "..");
const SOURCES = [
  "index.html",
  "package.json",
  "package-lock.json",
  "tsconfig.json",
  "vite.config.ts",
  "plugins",
  "public",
  "src",
];

export function buildRecord(): Plugin {
  let output = "";
  return {
    name: "moestream-build-record",
    apply: "build",
    configResolved(config) {
      output = join(ROOT, config.build.outDir);
    },
    closeBundle() {
      const files = Object.fromEntries(
        filesOf(output)
          .filter((path) => path !== "build.json")
          .map((path) => [path, sha256(join(output, path))]),
      );
      const record = { sources: sourcesHash(), files };
      writeFileSync(join(output, "build.json"), `${JSON.stringify(record, null, 1)}\n`);
    },
  };
}

/** Hash over the lines `<sha256 of a file>  <its path>`, sorted by path; tests are no sources. */
function sourcesHash(): string {
  const all = filesOf(ROOT, SOURCES).filter((path) => !/\.test\.tsx?$/.test(path));
  const lines = all.map((path) => `${sha256(join(ROOT, path))}  ${path}\n`);
  return createHash("sha256").update(lines.join("")).digest("hex");
}

function filesOf(root: string, within: string[] = ["."]): string[] {
  const found = within.flatMap((name) => walk(join(root, name)));
  return found.map((path) => relative(root, path).split(sep).join("/")).sort(byCodePoint);
}

function walk(path: string): string[] {
  let entries;
  try {
    entries = readdirSync(path, { withFileTypes: true });
  } catch {
    return [path]; // a file
  }
  return entries.flatMap((entry) => walk(join(path, entry.name)));
}

function byCodePoint(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

function sha256(path: string): string {
  return createHash("sha256").update(readFileSync(path)).digest("hex");
}
