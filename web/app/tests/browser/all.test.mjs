// One server and one browser for all of them.

import assert from "node:assert/strict";
import { after, test } from "node:test";
import care from "./care.mjs";
import lines from "./lines.mjs";
import places from "./places.mjs";
import states from "./states.mjs";
import story from "./story.mjs";
import told from "./told.mjs";
import { World } from "./world.mjs";

const world = await World.begin();
after(() => world.end());

for (const [sentence, body] of Object.entries({ ...story, ...places, ...lines, ...told, ...states, ...care })) {
  test(sentence, { timeout: 240_000 }, async () => {
    try {
      await body(world);
    } finally {
      await world.tidy();
    }
  });
}

test("no page asked another host, broke, or met its own policy", () => {
  assert.deepEqual(world.complaints(), []);
});
