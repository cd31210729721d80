// Catches: a rule that reaches a tool it does not name, or fails to reach one it does; a later rule that beats an earlier.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  findRepeatedKey,
  isForbidden,
  matches,
  type Policy,
  parsePolicy,
  rulingOn,
  rulingText,
} from "../../src/core/policy.ts";

const place = { agent: "clerk", tool: "send_mail" };

describe("a pattern", () => {
  test.each([
    ["send_mail", "send_mail", true],
    ["send_mail", "send_mails", false],
    ["send_*", "send_mail", true],
    ["*mail", "send_mail", true],
    ["*", "", true],
    ["", "", true],
    ["?", "", false],
    ["send_????", "send_mail", true],
    ["send_???", "send_mail", false],
    ["s*_*l", "send_mail", true],
    ["*a*a", "banana", true],
    ["*ab", "aab", true],
    ["a.c", "abc", false],
    ["**", "anything/at.all", true],
    ["send_*x", "send_mail", false],
  ])("%s fits %s: %s", (glob, text, fits) => {
    expect(matches(glob, text)).toBe(fits);
  });

  test("means what the same regular expression means", () => {
    const letters = fc.string({ unit: fc.constantFrom("a", "b", ".", "*", "?"), maxLength: 8 });
    const texts = fc.string({ unit: fc.constantFrom("a", "b", "."), maxLength: 10 });
    fc.assert(
      fc.property(letters, texts, (glob, text) => {
        const source = glob.replaceAll(".", "\\.").replaceAll("*", "[^]*").replaceAll("?", "[^]");
        expect(matches(glob, text)).toBe(new RegExp(`^${source}$`).test(text));
      }),
      { numRuns: 2_000 },
    );
  });

  test("that regular expressions choke on is decided at once", () => {
    expect(matches("*a".repeat(64), `${"a".repeat(20_000)}b`)).toBe(false);
  });
});

describe("a ruling", () => {
  test("takes each field from the first rule that fits and has it", () => {
    const policy: Policy = [
      { tool: "other", allow: false },
      { tool: "send_*", approval: "always" },
      { agent: "robot", tool: "*", approval: "never", effect: "read" },
      { agent: "cl*", tool: "*", approval: "never", effect: "irreversible", approvalExpiresMs: 60_000 },
      { tool: "*", allow: true },
    ];
    const ruling = rulingOn(policy, place);
    expect(ruling).toEqual({
      approval: { value: "always", rule: 2 },
      effect: { value: "irreversible", rule: 4 },
      approvalExpiresMs: { value: 60_000, rule: 4 },
      allow: { value: true, rule: 5 },
    });
    expect(rulingText(ruling)).toBe(
      "policy rule 2: approval always; policy rule 4: effect irreversible, approvalExpiresMs 60000; policy rule 5: allow true",
    );
    expect(isForbidden(ruling)).toBe(false);
    expect(isForbidden(rulingOn(policy, { agent: "clerk", tool: "other" }))).toBe(true);
  });

  test("of no policy is empty, and allows", () => {
    expect(rulingOn([], place)).toEqual({});
    expect(rulingText({})).toBe("");
    expect(isForbidden({})).toBe(false);
  });

  const ruleArb = fc.record(
    {
      agent: fc.constantFrom("*", "clerk", "robot", "c*"),
      tool: fc.constantFrom("*", "send_*", "send_mail", "pay"),
      effect: fc.constantFrom("read", "write", "irreversible"),
      approval: fc.constantFrom("always", "never"),
      approvalExpiresMs: fc.integer({ min: 1, max: 9 }),
      allow: fc.boolean(),
    },
    { requiredKeys: ["tool"] },
  ) as fc.Arbitrary<Policy[number]>;

  test("never depends on rules that do not fit, nor on what comes after the first that does", () => {
    fc.assert(
      fc.property(fc.array(ruleArb, { maxLength: 8 }), ruleArb, (policy, extra) => {
        const before = rulingOn(policy, place);
        for (const [field, ruled] of Object.entries(before as Record<string, { value: unknown; rule: number }>)) {
          const rule = policy[ruled.rule - 1] as Policy[number];
          expect(rule[field as keyof typeof rule]).toBe(ruled.value);
          const earlier = policy.slice(0, ruled.rule - 1).filter((one) => one[field as keyof typeof one] !== undefined);
          for (const one of earlier) {
            expect(matches(one.tool, place.tool) && matches(one.agent ?? "*", place.agent)).toBe(false);
          }
        }
        expect(rulingOn([...policy, extra], place)).toMatchObject(before);
        expect(rulingOn([...policy, { ...extra, tool: "elsewhere" }], place)).toEqual(before);
      }),
    );
  });
});

describe("parsePolicy", () => {
  test("takes a list of rules as it is", () => {
    const policy = [{ agent: "a", tool: "*", approval: "always", approvalExpiresMs: 5 }];
    expect(parsePolicy(policy)).toEqual({ ok: true, policy });
    expect(parsePolicy([])).toEqual({ ok: true, policy: [] });
  });

  test("names rule and field of everything that is wrong", () => {
    const wrong = [
      { tool: "a", approval: "sometimes", allow: "no" },
      { tool: "", effect: "rad" },
      { agent: 5, tool: "x".repeat(129), approvalExpiresMs: 0.5 },
      "nothing",
      { tool: "b" },
      { tool: "c", aproval: "always", allow: true },
    ];
    expect(parsePolicy(wrong)).toEqual({
      ok: false,
      problems: [
        'rule 1, approval: expected "always" or "never"',
        "rule 1, allow: expected true or false",
        "rule 2, tool: expected a pattern",
        'rule 2, effect: expected "read", "write" or "irreversible"',
        "rule 3, agent: expected text",
        "rule 3, tool: expected at most 128 characters",
        "rule 3, approvalExpiresMs: expected a whole number of ms",
        "rule 4: expected an object",
        "rule 5: it sets none of effect, approval, approvalExpiresMs, allow",
        'rule 6: unknown field "aproval"',
      ],
    });
  });

  test.each([null, {}, "[]", 3])("wants a list: %j", (value) => {
    expect(parsePolicy(value)).toEqual({ ok: false, problems: ["expected a list of rules"] });
  });
});

test("a key that stands twice in one object is found, and only that", () => {
  expect(findRepeatedKey('[{"tool":"a","allow":false,"tool":"b"}]')).toBe('"tool"');
  expect(findRepeatedKey('[{"tool":"a","t\\u006fol":"b"}]')).toBe('"t\\u006fol"');
  expect(findRepeatedKey('[{"tool":"tool"},{"tool":"{\\"tool\\":"},{"a":{"tool":1},"tool":2}]')).toBeUndefined();
});
