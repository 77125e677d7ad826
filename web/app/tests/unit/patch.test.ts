import { describe, expect, it } from "vitest";
import { numberedLines, readPatch, undo, untracked } from "../../src/text/patch";

const PATCH = `diff --git a/src/a.ts b/src/a.ts
index 1..2 100644
--- a/src/a.ts
+++ b/src/a.ts
@@ -1,3 +1,4 @@
 one
-two
+2
+2b
 three
@@ -10 +11 @@
-ten
+10
diff --git a/new.txt b/new.txt
new file mode 100644
--- /dev/null
+++ b/new.txt
@@ -0,0 +1,2 @@
+a
+b
\\ No newline at end of file
diff --git a/gone.txt b/gone.txt
deleted file mode 100644
--- a/gone.txt
+++ /dev/null
@@ -1 +0,0 @@
-bye
diff --git a/x.png b/x.png
Binary files a/x.png and b/x.png differ
`;

describe("patches", () => {
  const files = readPatch(PATCH);

  it("are read file by file", () => {
    expect(files.map((file) => [file.path, file.kind, file.added, file.removed])).toEqual([
      ["src/a.ts", "modified", 3, 2],
      ["new.txt", "added", 2, 0],
      ["gone.txt", "deleted", 0, 1],
      ["x.png", "binary", 0, 0],
    ]);
  });

  it("are taken back from what a file is now", () => {
    const now = "one\n2\n2b\nthree\n4\n5\n6\n7\n8\n9\n10\nend\n";
    expect(files[0] && undo(now, files[0])).toBe("one\ntwo\nthree\n4\n5\n6\n7\n8\n9\nten\nend\n");
    expect(files[1] && undo("a\nb", files[1])).toBe("");
    expect(files[2] && undo("", files[2])).toBe("bye\n");
  });

  it("are refused where they do not belong", () => {
    expect(files[0] && undo("something else\n", files[0])).toBeNull();
    expect(files[3] && undo("", files[3])).toBeNull();
  });

  it("are not fooled by lines that look like heads", () => {
    const odd = "diff --git a/a b/a\n--- a/a\n+++ b/a\n@@ -1,2 +1,2 @@\n--- a/b\n+++ b/b\n same\n";
    expect(readPatch(odd)[0]?.hunks[0]?.lines).toEqual(["--- a/b", "+++ b/b", " same"]);
  });

  it("of anything are read without falling over", () => {
    for (const text of ["", "nonsense", "diff --git", "@@ -1 +1 @@\n+x", "diff --git a/x b/x\n@@ -9,9 +9,9 @@"]) {
      expect(() => readPatch(text)).not.toThrow();
    }
  });

  it("has the numbers of its lines, and says where hunks are apart", () => {
    const patch = readPatch(
      [
        "diff --git a/a.txt b/a.txt",
        "--- a/a.txt",
        "+++ b/a.txt",
        "@@ -1,2 +1,2 @@",
        "-one",
        "+uno",
        " two",
        "@@ -9 +9,2 @@",
        " nine",
        "+ten",
        "",
      ].join("\n"),
    )[0];
    const shown = (patch === undefined ? [] : numberedLines(patch)).map((line) =>
      line.kind === "gap" ? line.text : `${line.before ?? ""}|${line.after ?? ""} ${line.text}`,
    );
    expect(shown).toEqual(["1| one", "|1 uno", "2|2 two", "@@ line 9", "9|9 nine", "|10 ten"]);
  });

  it("of a file that git does not know yet is all new", () => {
    expect(untracked("new.txt", "a\nb\n")).toMatchObject({ added: 2, removed: 0, kind: "added" });
    expect(numberedLines(untracked("new.txt", "a\n"))).toEqual([{ kind: "new", text: "a", before: null, after: 1 }]);
  });
});
