import { describe, expect, test } from "vitest";
import { createRedactor, noRedaction } from "../../src/core/redact.ts";
import { plainTexts, secretTexts } from "../support/secrets.ts";

const redactor = createRedactor();

describe("text", () => {
  test.each(secretTexts)(
    "%s: nothing of the secret is left, and what was JSON is JSON still",
    (_kind, secret, text) => {
      const redacted = redactor.text(text);
      expect(redacted).not.toContain(secret);
      expect(redacted).not.toContain(secret.slice(-12));
      expect(redacted).toMatch(/\[redacted: [a-z0-9 ]+\]/);
      expect(redactor.text(redacted)).toBe(redacted);
      if (/^["{]/.test(text)) expect(() => JSON.parse(redacted)).not.toThrow();
    },
  );

  test.each(plainTexts)("is left as it is: %s", (text) => {
    expect(redactor.text(text)).toBe(text);
    expect(noRedaction.text(text)).toBe(text);
  });

  test("what surrounds a secret stays", () => {
    expect(redactor.text("a password=hunter2; b redis://u:hunter2@h/0 c")).toBe(
      "a password=[redacted: password]; b redis://u:[redacted: password]@h/0 c",
    );
    expect(redactor.text('{"a":1,"secret":"x y","b":[2]}')).toBe('{"a":1,"secret":"[redacted: secret]","b":[2]}');
    const key = ["-----BEGIN PRI", "VATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQ\n\nThe key above"].join("");
    expect(redactor.text(key)).toBe("[redacted: private key]\n\nThe key above");
  });

  const mega = 1 << 20;
  const fill = (unit: string): string => unit.repeat(Math.ceil(mega / unit.length)).slice(0, mega);
  test.each([
    ...[
      "password",
      "password=",
      'password="\\',
      "eyJ",
      "-eyJa",
      "://a:b",
      "://",
      "sk-",
      "sk-a",
      "Bearer ",
      "token=",
      "a",
      "\\",
      '"',
    ],
    ...[
      "-----BEGIN ",
      "-----BEGIN PRI" + "VATE KEY-----",
      "cookie: a=b; ",
      "authorization: bearer ",
      "12345678:AA",
      "ghs_1_",
      "SG.a.",
    ],
    ...["secret_access_", "--token ", "?sig=%", " ", "中", "\\n", "ya29.", "api key: "],
  ])("takes linear time on 1 MiB of %j", (unit) => {
    const text = fill(unit);
    // Some 50 ms here; a quadratic search would take minutes.
    const startedAt = performance.now();
    redactor.text(text);
    expect(performance.now() - startedAt).toBeLessThan(20_000);
  });
});

describe("values", () => {
  test("secrets by the name of their field, and in text", () => {
    const value = {
      apiKey: "k",
      headers: { Authorization: "x", "set-cookie": ["a=b"], "X-Auth-Token": "abc-123" },
      dbPassword: 1234,
      "redis://u:hunter2@h": true,
      list: ["password=hunter2", null, 3],
      privateKey: "",
      client_secret_value: "x",
    };
    expect(redactor.value(value)).toEqual({
      apiKey: "[redacted: key]",
      headers: {
        Authorization: "[redacted: authorization]",
        "set-cookie": ["[redacted: cookie]"],
        "X-Auth-Token": "[redacted: token]",
      },
      dbPassword: "[redacted: password]",
      "redis://u:[redacted: password]@h": true,
      list: ["password=[redacted: password]", null, 3],
      privateKey: "",
      client_secret_value: "[redacted: secret]",
    });
  });

  test("what is no secret keeps its name, its type and its value", () => {
    const at = new Date(0);
    const value = {
      usage: { inputTokens: 120, totalTokens: 3 },
      token: "Hello",
      logprobs: [{ token: " the", logprob: -1 }],
      nextPageToken: "abc123",
      credentials: "include",
      properties: { password: { type: "string", minLength: 8 } },
      hasPassword: true,
      token_count: 4,
      at,
      ["x".repeat(90)]: 1,
    };
    expect(redactor.value(value)).toEqual(value);
    expect(redactor.value({ at }).at).toBe(at);
    expect(redactor.value(Object.create(null))).toEqual({});
    expect(noRedaction.value(value)).toBe(value);
  });

  test("depth is bounded", () => {
    let deep: unknown = "password=hunter2";
    for (let level = 0; level < 10_000; level += 1) deep = [deep];
    expect(JSON.stringify(redactor.value(deep))).not.toContain("hunter2");
  });

  test("JSON text is redacted as a value; other text as text", () => {
    expect(redactor.json('{"passwords":["a","b"],"n":1}')).toBe(
      '{"passwords":["[redacted: password]","[redacted: password]"],"n":1}',
    );
    expect(redactor.json('{ "n" : 1.0 }')).toBe('{ "n" : 1.0 }');
    expect(redactor.json("{password=hunter2")).toBe("{password=[redacted: password]");
    expect(redactor.json("password=hunter2")).toBe("password=[redacted: password]");
    expect(noRedaction.json("{")).toBe("{");
  });
});

describe("known values", () => {
  test("are removed wherever they appear, also written in JSON and in a URL", () => {
    const own = createRedactor({ known: [{ kind: "api key", value: 'my"key 42' }] });
    expect(own.text(`a my"key 42 b ${JSON.stringify('my"key 42')} c ${encodeURIComponent('my"key 42')}`)).toBe(
      'a [redacted: api key] b "[redacted: api key]" c [redacted: api key]',
    );
  });

  test("what is a mere word, or short, is not looked for", () => {
    const own = createRedactor({ known: ["unused", "a1", "none"].map((value) => ({ kind: "x", value })) });
    expect(own.text("unused a1 none")).toBe("unused a1 none");
  });

  test("the longer of two is taken", () => {
    const own = createRedactor({ known: ["secret-1", "secret-1-more"].map((value) => ({ kind: value, value })) });
    expect(own.text("secret-1-more secret-1")).toBe("[redacted: secret-1-more] [redacted: secret-1]");
  });
});
