import { describe, expect, it } from "vitest";
import { counts, diffLines, hunks } from "../../src/text/diff";

const shown = (before: string, after: string) =>
  diffLines(before, after).map((line) => `${{ same: " ", gone: "-", new: "+" }[line.kind]}${line.text}`);

describe("lines of an edit", () => {
  it("tells what went, came and stayed", () => {
    expect(shown("a\nb\nc\n", "a\nx\nc\n")).toEqual([" a", "-b", "+x", " c"]);
    expect(shown("", "a\nb\n")).toEqual(["+a", "+b"]);
    expect(shown("a\n", "")).toEqual(["-a"]);
    expect(shown("a\n", "a\n")).toEqual([" a"]);
  });

  it("numbers lines on both sides", () => {
    const last = diffLines("a\nb\n", "x\na\nb\n").at(-1);
    expect([last?.before, last?.after]).toEqual([2, 3]);
  });

  it("gives both texts back, whatever they are", () => {
    let seed = 7;
    const random = (below: number) => {
      seed = (seed * 1103515245 + 12345) % 2147483648;
      return seed % below;
    };
    for (let round = 0; round < 200; round += 1) {
      const text = () => Array.from({ length: random(12) }, () => "abc"[random(3)]).join("\n");
      const [before, after] = [text(), text()];
      const all = diffLines(before, after);
      const side = (left: string) =>
        all
          .filter((line) => line.kind !== left)
          .map((line) => line.text)
          .join("\n");
      expect(side("new")).toBe(before.replace(/\n$/, ""));
      expect(side("gone")).toBe(after.replace(/\n$/, ""));
    }
  });

  it("is done in time with files of thousands of lines", () => {
    const lines = (letter: string) => Array.from({ length: 20_000 }, (_, at) => `${letter}${at}`).join("\n");
    const start = performance.now();
    expect(counts(diffLines(lines("a"), lines("b")))).toEqual({ added: 20_000, removed: 20_000 });
    expect(performance.now() - start).toBeLessThan(1000);
  });

  it("leaves out what is far from a change", () => {
    const before = Array.from({ length: 40 }, (_, at) => `${at}`).join("\n");
    const after = before.replace("\n20\n", "\nx\n");
    const near = hunks(diffLines(before, after), 2);
    expect(near.length).toBe(6);
    expect(near.includes(null)).toBe(false);
  });
});
