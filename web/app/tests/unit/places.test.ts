import { describe, expect, it } from "vitest";
import { at } from "../../src/panels/framed";
import { nameOf } from "../../src/panels/snapshots";
import { namesIn } from "../../src/panels/terminal-tabs";

describe("the path of a preview", () => {
  const link = "http://3000-ses-1.preview.nacre.localhost:7070/?nacre_code=c";

  it("goes along with the code that lets in", () => {
    expect(at(link, "/a/b?c=d")).toBe("http://3000-ses-1.preview.nacre.localhost:7070/a/b?c=d&nacre_code=c");
    expect(at(link, null)).toBe(link);
  });

  it("never leads to another host with it", () => {
    expect(at(link, "//evil.example/")).toBe(link);
    expect(at(link, "https://evil.example/")).toBe(link);
  });
});

describe("names", () => {
  it("of terminals are found in what a server tells, whatever that is", () => {
    expect(namesIn({ terminals: [{ name: "main" }, { name: "2" }] })).toEqual(["main", "2"]);
    for (const told of [null, 7, {}, { terminals: [null, {}] }]) expect(namesIn(told)).toEqual([]);
  });

  it("of snapshots are what somebody called them, or what they are", () => {
    const snapshot = { id: "snp_1", kind: "disk", recovered: false, created_at: new Date().toISOString() };
    const named = (more: object) => nameOf({ ...snapshot, ...more } as Parameters<typeof nameOf>[0]);
    expect(named({ message: "it works" })).toBe("it works");
    expect(named({ kind: "pause" })).toMatch(/^Pause, \d\d:\d\d/);
    expect(named({ recovered: true })).toMatch(/^Saved from a sandbox that died/);
  });
});
