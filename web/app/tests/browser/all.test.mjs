// One server and one browser for all of them.

import assert from "node:assert/strict";
import { after, test } from "node:test";
import care from "./care.mjs";
import lines from "./lines.mjs";
import places from "./places.mjs";
import story from "./story.mjs";
import told from "./told.mjs";
import { World } from "./world.mjs";

const world = await World.begin();
after(() => world.end());

for (const [sentence, body] of Object.entries({ ...story, ...places, ...lines, ...told, ...care })) {
  test(sentence, { timeout: 180_000 }, () => body(world));
}

test("no page asked another host, broke, or met its own policy", () => {
  assert.deepEqual(world.complaints(), []);
});
