import { describe, expect, it } from "vitest";
import { readFindings, readReach, readRepos, readUsed } from "../../src/settings/told";

describe("what newer routes tell", () => {
  it("is read in more than one form", () => {
    const finding = { name: "kernel", status: "missing", found: "6.1", advice: "install a newer one" };
    for (const told of [[finding], { findings: [finding] }, { checks: [finding] }]) {
      expect(readFindings(told)).toEqual([finding]);
    }
    expect(readUsed({ layers: { bytes: 70, count: 2 }, trash: { bytes: 5 }, total_bytes: 80, free_bytes: 9 })).toEqual({
      parts: [
        { name: "layers", bytes: 70, count: 2 },
        { name: "trash", bytes: 5, count: null },
      ],
      total: 80,
      free: 9,
    });
    expect(readReach({ policy: "proxy", allow: ["a.example"], odd: [1] })).toEqual({
      policy: "proxy",
      lists: [{ name: "allow", rules: ["a.example"] }],
    });
    expect(readRepos({ items: [{ id: "rep_1", url: "https://a.example/b/c" }, { id: "rep_2" }] })).toHaveLength(1);
  });

  it("may be nonsense", () => {
    for (const told of [null, 7, "x", [null, 3], { findings: 5, parts: "x", items: {} }]) {
      expect(readFindings(told).every((one) => one.status === "warning")).toBe(true);
      expect(readUsed(told).parts).toEqual([]);
      expect(readReach(told).lists).toEqual([]);
      expect(readRepos(told)).toEqual([]);
    }
  });
});
