// After the build: what is sent compressed is compressed once, here; and the page stays light.

import { readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";

const DIST = new URL("../dist/", import.meta.url).pathname;
const BUDGET = 200 * 1024;
/** Loaded when somebody opens them, and not before. */
const ON_DEMAND = [/src\/panels\/screen\.ts$/, /src\/code\/(editor|merge)\.ts$/];

const manifest = JSON.parse(await readFile(join(DIST, ".vite/manifest.json"), "utf8"));
const needed = new Set();
const visit = (key) => {
  const chunk = manifest[key];
  if (chunk === undefined || needed.has(chunk.file)) return;
  needed.add(chunk.file);
  for (const other of chunk.imports ?? []) visit(other);
  for (const other of chunk.dynamicImports ?? []) {
    if (!ON_DEMAND.some((pattern) => pattern.test(other))) visit(other);
  }
};
for (const [key, chunk] of Object.entries(manifest)) if (chunk.isEntry) visit(key);

let script = 0;
for (const name of await readdir(DIST, { recursive: true })) {
  if (!/\.(js|css|html|svg)$/.test(name)) continue;
  const bytes = await readFile(join(DIST, name));
  const zipped = gzipSync(bytes, { level: 9 });
  await writeFile(join(DIST, `${name}.gz`), zipped);
  const params = { [constants.BROTLI_PARAM_QUALITY]: 11 };
  await writeFile(join(DIST, `${name}.br`), brotliCompressSync(bytes, { params }));
  if (name.endsWith(".js") && needed.has(name)) script += zipped.length;
}

const kib = (bytes) => `${(bytes / 1024).toFixed(1)} KiB`;
console.log(`script before terminal, editor or desktop: ${kib(script)} of ${kib(BUDGET)} (gzip)`);
if (needed.size === 0 || script === 0) throw new Error("no entry was found in the manifest");
if (script > BUDGET) throw new Error("too much script: load what is rarely used when it is opened");
