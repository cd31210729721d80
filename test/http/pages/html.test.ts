import fc from "fast-check";
import { expect, test } from "vitest";
import { html, path, query, visible } from "../../../src/http/pages/html.ts";
import { fuzzRuns } from "../../support/fuzz.ts";

test("whatever a text holds, it stays text: in content, in attributes, in lists", () => {
  fc.assert(
    fc.property(fc.string({ unit: "binary" }), (text) => {
      const made = String(html`<a href="${text}">${[text]}</a>`);
      expect(made).toMatch(/^<a href="[^"<>]*">[^<>"]*<\/a>$/);
    }),
    { numRuns: fuzzRuns },
  );
});

test("markup that was made so is not escaped again, and nothing is written for what is not there", () => {
  expect(String(html`<p>${html`<b>${"&"}</b>`}${undefined}${null}${false}</p>`)).toBe("<p><b>&amp;</b></p>");
});

test("what a reader could not see is shown by its code point", () => {
  expect(visible("pay\u202Eegra\u202C 1\u200B0\u0000\u001B[31m\uFEFF\u{E0041}")).toBe(
    "pay⟨U+202E⟩egra⟨U+202C⟩ 1⟨U+200B⟩0⟨U+0000⟩⟨U+001B⟩[31m⟨U+FEFF⟩⟨U+E0041⟩",
  );
});

test("line ends, tabs, emoji and other scripts stay as they are", () => {
  const text = "a\tb\nc 👩‍👩‍👧 नमस्ते שלום مرحبا";
  expect(visible(text)).toBe(text);
  expect(visible("a\r\nb")).toBe("a\nb");
});

test("parts of a path and of a query are encoded", () => {
  expect(path`/ui/runs/${"a/../b?c#d"}/turns/${3}`).toBe("/ui/runs/a%2F..%2Fb%3Fc%23d/turns/3");
  expect(query({ a: "x&y", b: undefined, c: "", d: 0 })).toBe("?a=x%26y&d=0");
  expect(query({})).toBe("");
});
