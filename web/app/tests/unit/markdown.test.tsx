import { renderToStaticMarkup } from "react-dom/server";
import { describe, expect, it } from "vitest";
import { isHarmless, Markdown } from "../../src/text/markdown";

const drawn = (text: string) => renderToStaticMarkup(<Markdown text={text} />);

describe("markdown of an agent", () => {
  it("becomes elements", () => {
    const html = drawn("# Title\n\n- **one**\n- `two`\n\n| a |\n|---|\n| b |\n");
    expect(html).toContain("<h3>Title</h3>");
    expect(html).toContain("<strong>one</strong>");
    expect(html).toContain("<code>two</code>");
    expect(html).toContain("<td>b</td>");
  });

  it.each([
    "<script>alert(1)</script>",
    '<img src=x onerror="alert(1)">',
    'hello <b onclick="x()">bold</b>',
    "<iframe src=//evil.example></iframe>",
    "<style>*{display:none}</style>",
    "[x](javascript:alert(1))",
    "[x](JaVaScRiPt:alert(1))",
    "[x](&#106;avascript:alert(1))",
    "[x](data:text/html,<script>alert(1)</script>)",
    "![x](https://evil.example/pixel.png)",
    '<https://ok.example/"onmouseover=alert(1)>',
    "```html\n<script>alert(1)</script>\n```",
  ])("never becomes markup: %s", (text) => {
    const html = drawn(text);
    expect(html).not.toMatch(/<(script|img|iframe|style|b)\b/i);
    expect(html).not.toMatch(/<[^>]+\son\w+=/i);
    expect(html).not.toMatch(/href="(?!https?:|mailto:)/i);
  });

  it("asks no other server for a picture", () => {
    expect(drawn("![chart](https://evil.example/a.png)")).toContain(">chart</a>");
  });

  it("opens links without telling where it comes from", () => {
    expect(drawn("[a](https://a.example)")).toContain('rel="noreferrer noopener nofollow"');
  });

  it("takes text that is cut anywhere, as it streams", () => {
    const whole = "Some **bold** and `code`:\n\n```ts\nconst a = 1;\n```\n\n1. one\n2. two\n";
    for (let end = 0; end <= whole.length; end += 1) expect(() => drawn(whole.slice(0, end))).not.toThrow();
  });
});

describe("where a link may lead", () => {
  it("is the web or a mailbox", () => {
    expect(isHarmless("https://a.example/b")).toBe(true);
    expect(isHarmless("mailto:a@b.example")).toBe(true);
  });
  it.each(["javascript:alert(1)", "file:///etc/passwd", "/settings", "vbscript:x", "blob:x", "//evil.example"])(
    "is not %s",
    (href) => expect(isHarmless(href)).toBe(false),
  );
});
