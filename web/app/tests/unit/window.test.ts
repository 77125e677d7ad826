import { describe, expect, it } from "vitest";
import { offsets, rowAt, windowOf } from "../../src/session/window";

const keys = Array.from({ length: 10_000 }, (_, at) => `row-${at}`);
const plain = offsets(keys, { guess: () => 40, measured: new Map() });

describe("the window of a long list", () => {
  it("draws a screen and a little more of ten thousand rows", () => {
    const { first, end, above, below } = windowOf(plain, 200_000, 800, 400);
    expect(end - first).toBeLessThan(45);
    expect(first).toBeLessThanOrEqual(5000);
    expect(end).toBeGreaterThanOrEqual(5020);
    expect(above + below + (end - first) * 40).toBe(400_000);
  });

  it("has nothing above the first row or below the last", () => {
    expect(windowOf(plain, 0, 800, 400).above).toBe(0);
    expect(windowOf(plain, 400_000 - 800, 800, 400).below).toBe(0);
    expect(windowOf(offsets([], { guess: () => 1, measured: new Map() }), 0, 800, 0).end).toBe(0);
  });

  it("finds rows by their measured heights", () => {
    const measured = new Map([["row-0", 1000]]);
    const starts = offsets(keys, { guess: () => 40, measured });
    expect(rowAt(starts, 999)).toBe(0);
    expect(rowAt(starts, 1000)).toBe(1);
    expect(rowAt(starts, 1e9)).toBe(9999);
  });

  it("is quick for ten thousand rows", () => {
    const start = performance.now();
    for (let round = 0; round < 20; round += 1) offsets(keys, { guess: () => 40, measured: new Map() });
    expect((performance.now() - start) / 20).toBeLessThan(16);
  });
});
