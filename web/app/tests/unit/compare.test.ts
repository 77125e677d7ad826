import { describe, expect, it } from "vitest";
import { forkPoint, shared } from "../../src/compare/changes";
import { readGit } from "../../src/panels/git";
import { untracked } from "../../src/text/patch";

const at = (...shas: string[]) => readGit({ commits: shas.map((sha) => ({ sha, message: "", author: "", date: "" })) });

describe("two forks", () => {
  it("came from the newest commit that both have", () => {
    expect(forkPoint(at("d", "b", "a"), at("f", "e", "b", "a"))).toBe("b");
    expect(forkPoint(at("b", "a"), at("b", "a"))).toBe("b");
  });

  it("came from nowhere that is known, where they have none or one cannot be looked at", () => {
    expect(forkPoint(at("b"), at("a"))).toBeNull();
    expect(forkPoint(at("b"), undefined)).toBeNull();
  });

  it("share what is changed alike in both", () => {
    const same = untracked("same", "1");
    expect([...shared([same, untracked("other", "1")], [same, untracked("other", "2")])]).toEqual(["same"]);
  });
});
