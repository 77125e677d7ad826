// One server and one browser for all of them.

import assert from "node:assert/strict";
import { after, test } from "node:test";
import { World } from "./world.mjs";

const world = await World.begin();
after(() => world.end());

for (const name of ["story", "places", "lines", "care"]) {
  const { default: tests } = await import(`./${name}.mjs`);
  for (const [sentence, body] of Object.entries(tests)) {
    test(sentence, { timeout: 180_000 }, () => body(world));
  }
}

test("no page asked another host, broke, or met its own policy", () => {
  assert.deepEqual(world.complaints(), []);
});
