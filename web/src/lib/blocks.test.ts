import { describe, expect, it } from "vitest";

import { splitBlocks } from "./blocks";

describe("splitBlocks", () => {
  it("splits at blank lines and keeps every line that says something", () => {
    expect(splitBlocks("one\nstill one\n\n\ntwo\n\n# three")).toEqual(["one\nstill one\n\n", "two\n", "# three"]);
  });

  it("keeps a fence in one piece, blank lines and other fences inside", () => {
    const code = "````md\n```js\n\nx\n```\n\ny\n````";
    expect(splitBlocks(`${code}\n\nafter`)).toEqual([`${code}\n`, "after"]);
  });

  it("keeps an open fence together to the end", () => {
    expect(splitBlocks("a\n\n```py\nx = 1\n\ny = 2")).toEqual(["a\n", "```py\nx = 1\n\ny = 2"]);
  });

  it("keeps the items of a loose list together, so that they are counted on", () => {
    const list = "1. one\n\n   more of one\n\n2. two\n";
    expect(splitBlocks(`${list}\nend`)).toEqual([list, "end"]);
  });

  it("splits nothing where definitions reach over the whole text", () => {
    const text = "see [x]\n\n[x]: https://example.org";
    expect(splitBlocks(text)).toEqual([text]);
  });

  it("does not take inline code for a fence", () => {
    expect(splitBlocks("```not a fence```\n\nb")).toEqual(["```not a fence```\n", "b"]);
  });

  it("changes only the last piece when text is added, whatever the text", () => {
    const text = "# T\n\npara\n\n- a\n- b\n\n```js\nlet x;\n\n```\n\n| a |\n|---|\n| 1 |\n\nend of it";
    let before: string[] = [];
    for (let end = 1; end <= text.length; end += 1) {
      const now = splitBlocks(text.slice(0, end));
      const settled = Math.min(before.length, now.length) - 1;
      expect(now.slice(0, Math.max(settled, 0)).map((block) => block.trimEnd())).toEqual(
        before.slice(0, Math.max(settled, 0)).map((block) => block.trimEnd()),
      );
      before = now;
    }
    expect(before.join("\n")).toBe(text);
  });
});
