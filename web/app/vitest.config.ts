import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";

export default defineConfig({
  resolve: {
    alias: { "@nacre/client": fileURLToPath(new URL("../client/src/index.ts", import.meta.url)) },
  },
  test: { include: ["tests/unit/**/*.test.{ts,tsx}"], setupFiles: ["tests/unit/browser.ts"] },
});
