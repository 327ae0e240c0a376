import react from "@vitejs/plugin-react";
import { defineConfig } from "vitest/config";

import { buildRecord } from "./plugins/build-record.ts";
import { serviceWorker } from "./plugins/service-worker.ts";

const api = process.env["MOESTREAM_URL"] ?? "http://127.0.0.1:8080";

export default defineConfig({
  plugins: [react(), serviceWorker(), buildRecord()],
  base: "/",
  build: {
    outDir: "../src/moestream/server/static",
    emptyOutDir: true,
    target: "es2022",
    // Nothing may be inlined: the content security policy allows files of this server only.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
  },
  server: { proxy: { "/api": api, "/v1": api } },
  test: { include: ["src/**/*.test.ts"], environment: "node" },
});
