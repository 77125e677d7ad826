import { fileURLToPath } from "node:url";
import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

/** Where a server runs. It has to know the name of this page: `server.hosts = ["nacre.localhost:5173"]`. */
const server = process.env["NACRE_URL"] ?? "http://127.0.0.1:7070";
const proxy = Object.fromEntries(
  ["/v1", "/openapi.json", "/healthz"].map((path) => [path, { target: server, ws: true, changeOrigin: false }]),
);
/** As the server sends it, but for the port of previews. */
const policy =
  "default-src 'self'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; " +
  "frame-src http://*.preview.nacre.localhost:*; object-src 'none'; base-uri 'none'; form-action 'none'; " +
  "frame-ancestors 'none'";
const port = Number(process.env["PORT"] ?? 5173);

export default defineConfig({
  plugins: [react()],
  resolve: {
    alias: { "@nacre/client": fileURLToPath(new URL("../client/src/index.ts", import.meta.url)) },
  },
  server: { host: "127.0.0.1", port, strictPort: true, proxy },
  preview: {
    host: "127.0.0.1",
    port,
    strictPort: true,
    proxy,
    headers: { "Content-Security-Policy": policy },
  },
  build: {
    target: "es2023",
    manifest: true,
    // Nothing by `data:`: the policy of the page allows none.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    chunkSizeWarningLimit: 1000,
  },
});
