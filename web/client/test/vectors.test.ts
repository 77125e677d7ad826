import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import { test } from "node:test";

import { readFrame, Transcript } from "../src/index.js";

const VECTORS = new URL("../../../../crates/client/tests/vectors/", import.meta.url);

interface Case {
  name: string;
  frames: unknown[];
  transcript: unknown;
}

for (const file of readdirSync(VECTORS).sort()) {
  const { cases } = JSON.parse(readFileSync(new URL(file, VECTORS), "utf8")) as { cases: Case[] };
  for (const { name, frames, transcript: expected } of cases) {
    test(`${file}: ${name}`, () => {
      const transcript = new Transcript();
      for (const value of frames) {
        const frame = readFrame(JSON.stringify(value));
        if (frame) transcript.apply(frame);
      }
      const told = { ...JSON.parse(JSON.stringify(transcript)), usage: transcript.usage() };
      assert.deepEqual(told, expected);
      for (const value of frames) {
        const frame = readFrame(JSON.stringify(value));
        if (frame && frame.type !== "init" && frame.seq !== undefined) transcript.apply(frame);
      }
      const again = { ...JSON.parse(JSON.stringify(transcript)), usage: transcript.usage() };
      assert.deepEqual(again, expected, "told again, numbered frames change nothing");
    });
  }
}
