// Would catch an answer whose meaning depends on how the network cut it, on the form it was asked for in, or on which
// of the usual liberties a server takes; and a call that no server sent.
// 2,000 cases of each kind; DROVER_FUZZ_RUNS says otherwise.
import fc from "fast-check";
import { expect, test } from "vitest";
import { interpretReply } from "../../src/core/reply.ts";
import type { Accumulated } from "../../src/openai/accumulator.ts";
import { type BodyEnd, createBodyReader } from "../../src/openai/body-reader.ts";
import { fuzzRuns, fuzzTimeoutMs, mutated, plainArguments } from "../support/fuzz.ts";

type Fields = Record<string, unknown>;
type Read = { result: Accumulated; end: BodyEnd; text: string };
const toolNames = new Set(["add", "ping", "get_weather"]);

/** Feeds bytes in pieces of these sizes, again and again. */
function feed(bytes: Uint8Array, sizes: readonly number[]): Read {
  let text = "";
  const reader = createBodyReader(
    (piece) => (text += piece),
    () => {},
    toolNames,
  );
  for (let at = 0, turn = 0; at < bytes.length; turn += 1) {
    const size = sizes[turn % sizes.length] ?? bytes.length;
    reader.feed(bytes.subarray(at, at + size));
    at += size;
  }
  const end = reader.close();
  return { result: reader.result(), end, text };
}

const bytesOf = (text: string): Uint8Array => new TextEncoder().encode(text);

/** What a model said. */
type Said = {
  texts: string[];
  reasoning: string[];
  calls: { id: string; name: string; args: string }[];
  cuts: number[];
};
const pieces = fc.array(fc.constantFrom("It is ", "Zürich 😀", "\n", "data: x\n\n", "\u2028", '"', "{", "[DONE]"), {
  maxLength: 4,
});
const said: fc.Arbitrary<Said> = fc.record({
  texts: pieces,
  reasoning: pieces,
  calls: fc
    .array(fc.tuple(fc.constantFrom(...toolNames), plainArguments), { maxLength: 3 })
    .map((list) => list.map(([name, args], index) => ({ id: `c${index}`, name, args: JSON.stringify(args) }))),
  cuts: fc.array(fc.nat(40), { maxLength: 5 }),
});
const usage = { prompt_tokens: 10, completion_tokens: 5 };
const finishOf = ({ calls }: Said): string => (calls.length > 0 ? "tool_calls" : "stop");

function toBody(given: Said): Fields {
  const message = {
    role: "assistant",
    content: given.texts.join("") || null,
    ...(given.reasoning.join("") === "" ? {} : { reasoning_content: given.reasoning.join("") }),
    ...(given.calls.length === 0
      ? {}
      : {
          tool_calls: given.calls.map(({ id, name, args }) => ({
            id,
            type: "function",
            function: { name, arguments: args },
          })),
        }),
  };
  return { id: "r1", model: "m", choices: [{ index: 0, message, finish_reason: finishOf(given) }], usage };
}

/** The liberties that a server takes with its stream. */
type Style = {
  index: "number" | "text" | "none" | "from 3" | "all 0";
  idEach: boolean;
  nameEach: boolean;
  roleEach: boolean;
  whole: boolean;
  usage: "last" | "with finish" | "each";
  done: boolean;
};
const styles: fc.Arbitrary<Style> = fc.record({
  index: fc.constantFrom("number", "text", "none", "from 3", "all 0"),
  idEach: fc.boolean(),
  nameEach: fc.boolean(),
  roleEach: fc.boolean(),
  whole: fc.boolean(),
  usage: fc.constantFrom("last", "with finish", "each"),
  done: fc.boolean(),
});

function indexOf(index: number, style: Style): Fields {
  const forms = { number: index, text: String(index), none: undefined, "from 3": index + 3, "all 0": 0 };
  const value = forms[style.index];
  return value === undefined ? {} : { index: value };
}

function cut(text: string, at: readonly number[]): string[] {
  const places = [0, ...at.map((place) => place % (text.length + 1)).sort((a, b) => a - b), text.length];
  return places.slice(1).map((place, index) => text.slice(places[index], place));
}

function toDeltas(given: Said, style: Style): Fields[] {
  const deltas: Fields[] = [{ role: "assistant", content: "" }];
  for (const text of given.reasoning) deltas.push({ reasoning_content: text });
  for (const content of given.texts) deltas.push({ content });
  for (const [index, { id, name, args }] of given.calls.entries()) {
    for (const [turn, part] of (style.whole ? [args] : cut(args, given.cuts)).entries()) {
      const head = turn === 0;
      const fn = { ...(head || style.nameEach ? { name } : {}), arguments: part };
      deltas.push({
        tool_calls: [
          { ...indexOf(index, style), ...(head || style.idEach ? { id, type: "function" } : {}), function: fn },
        ],
      });
    }
  }
  return style.roleEach ? deltas.map((delta) => ({ role: "assistant", ...delta })) : deltas;
}

function toChunks(given: Said, style: Style): Fields[] {
  const head = { id: "r1", model: "m", ...(style.usage === "each" ? { usage } : {}) };
  return [
    ...toDeltas(given, style).map((delta) => ({ ...head, choices: [{ index: 0, delta, finish_reason: null }] })),
    {
      ...head,
      choices: [{ index: 0, delta: {}, finish_reason: finishOf(given) }],
      ...(style.usage === "with finish" ? { usage } : {}),
    },
    ...(style.usage === "last" ? [{ ...head, choices: [], usage }] : []),
  ];
}

type Framing = { line: string; space: string; comment: string; mark: string };
const framings: fc.Arbitrary<Framing> = fc.record({
  line: fc.constantFrom("\n", "\r\n", "\r"),
  space: fc.constantFrom("", " "),
  comment: fc.constantFrom("", ": keep-alive", "event: message", "id: 7", "retry: 100", "data: null"),
  mark: fc.constantFrom("", "\uFEFF"),
});

function toEvents(chunks: readonly unknown[], { line, space, comment, mark }: Framing, done: boolean): string {
  const events = chunks.map((chunk) => `data:${space}${JSON.stringify(chunk)}${line}${line}`);
  const between = comment === "" ? "" : `${comment}${line}${line}`;
  return `${mark}${between}${events.join(between)}${done ? `data: [DONE]${line}${line}` : ""}`;
}

const sizes = fc.array(fc.integer({ min: 1, max: 50 }), { minLength: 1, maxLength: 8 });

test("an answer is the same in one body, in a stream, and however its bytes are split", {
  timeout: fuzzTimeoutMs,
}, () => {
  fc.assert(
    fc.property(said, styles, framings, sizes, (...[given, style, framing, split]) => {
      const stream = bytesOf(toEvents(toChunks(given, style), framing, style.done));
      const whole = feed(bytesOf(JSON.stringify(toBody(given))), split);
      const once = feed(stream, [stream.length]);
      expect(feed(stream, split)).toEqual(once);
      expect(once.end).toEqual({ type: "finished" });
      const toCalls = ({ result }: Read): unknown =>
        result.reply.toolCalls.map(({ id, name, arguments: args }) => ({ id, name, arguments: args }));
      expect(toCalls(once)).toEqual(given.calls.map(({ id, name, args }) => ({ id, name, arguments: args })));
      expect(toCalls(whole)).toEqual(toCalls(once));
      const rest = ({ result, text }: Read): unknown => ({
        ...result,
        text,
        reply: { ...result.reply, toolCalls: [] },
      });
      expect(rest(once)).toEqual(rest(whole));
    }),
    { numRuns: fuzzRuns },
  );
});

const junk = fc.constantFrom<unknown>(
  null,
  "",
  "x",
  "0",
  0,
  -1,
  1.5,
  true,
  [],
  {},
  [null],
  ["a"],
  { a: 1 },
  { index: 0 },
  [[]],
  "[DONE]",
  { type: "text", text: "t" },
  { name: "add", arguments: {} },
  [{ function: { name: "ping" } }],
);
type Damage = { at: number; value: unknown; kind: "replace" | "drop" | "rename" };
const damages: fc.Arbitrary<Damage[]> = fc.array(
  fc.record({ at: fc.nat(10_000), value: junk, kind: fc.constantFrom("replace", "drop", "rename") }),
  { minLength: 1, maxLength: 4 },
);

/** One value anywhere inside replaced, dropped or given another key. */
function damage(chunks: Fields[], { at, value, kind }: Damage): Fields[] {
  const copy = structuredClone(chunks);
  const places: { holder: Fields; key: string }[] = [];
  const visit = (holder: unknown): void => {
    if (typeof holder !== "object" || holder === null) return;
    for (const [key, inner] of Object.entries(holder)) {
      places.push({ holder: holder as Fields, key });
      visit(inner);
    }
  };
  visit(copy);
  const place = places[at % Math.max(places.length, 1)];
  if (!place) return copy;
  const { holder, key } = place;
  if (kind === "replace") holder[key] = structuredClone(value);
  else if (kind === "rename" && !Array.isArray(holder)) holder[`${key}_`] = holder[key];
  if (kind !== "replace" && !Array.isArray(holder)) delete holder[key];
  return copy;
}

/** Every text inside, and every container as the text it would be: what arguments can be made of. */
function textsOf(value: unknown): string[] {
  if (typeof value === "string") return [value];
  const inner = typeof value === "object" && value !== null ? Object.values(value).flatMap(textsOf) : [];
  return value === undefined ? inner : [...inner, JSON.stringify(value)];
}

/** Whether a text is nothing but such pieces, one after the other. */
function isMadeOf(text: string, parts: readonly string[]): boolean {
  const reached = new Set([0]);
  for (let at = 0; at < text.length; at += 1) {
    if (!reached.has(at)) continue;
    for (const part of parts) if (part !== "" && text.startsWith(part, at)) reached.add(at + part.length);
  }
  return reached.has(text.length);
}

/** Whatever was read can be interpreted, and its calls were sent. */
function expectDerived({ result }: Read, sent: unknown): void {
  const parts = [...new Set(textsOf(sent))];
  for (const call of result.reply.toolCalls) {
    expect(isMadeOf(call.name, parts)).toBe(true);
    expect(isMadeOf(call.arguments, parts)).toBe(true);
    expect(call.id === undefined || parts.includes(call.id)).toBe(true);
  }
  const finishReason = result.finishReason ?? "stop";
  const context = { turn: 1, offered: [...toolNames], usedIds: new Set<string>(), seed: "r" };
  const answer = interpretReply({ reply: result.reply, finishReason, ...context });
  expect(JSON.parse(JSON.stringify(answer))).toBeTruthy();
}

test("of a damaged answer nothing is read that was not sent, however it is split", { timeout: fuzzTimeoutMs }, () => {
  fc.assert(
    fc.property(said, fc.tuple(styles, framings), damages, sizes, (...[given, [style, framing], list, split]) => {
      const chunks = list.reduce(damage, toChunks(given, style));
      const bytes = bytesOf(toEvents(chunks, framing, style.done));
      const once = feed(bytes, [bytes.length]);
      expect(feed(bytes, split)).toEqual(once);
      expectDerived(once, chunks);
      const [body] = list.reduce(damage, [toBody(given)]);
      const whole = feed(bytesOf(JSON.stringify(body ?? null)), split);
      expectDerived(whole, body);
    }),
    { numRuns: fuzzRuns },
  );
});

test("of damaged bytes the same is read however they are split", { timeout: fuzzTimeoutMs }, () => {
  const inserts = ["\n", "\r", "\n\n", "data:", ": ", "{", "}", '"', "[DONE]", "\0", "😀", "\uFEFF", "event: error\n"];
  const text = fc
    .tuple(said, styles, framings)
    .map(([given, style, framing]) => toEvents(toChunks(given, style), framing, style.done));
  fc.assert(
    fc.property(mutated(text, inserts), fc.nat(400), sizes, (sent, at, split) => {
      const bytes = bytesOf(sent);
      // A byte that fits no character.
      if (at < bytes.length) bytes[at] = 0xff;
      const once = feed(bytes, [Math.max(bytes.length, 1)]);
      expect(feed(bytes, split)).toEqual(once);
      const received = new TextDecoder().decode(bytes);
      const letters = once.result.reply.toolCalls.flatMap(({ name }) => name.match(/\w+/g) ?? []).join("");
      for (const letter of letters) expect(received).toContain(letter);
    }),
    { numRuns: fuzzRuns },
  );
});

test("any bytes at all", { timeout: fuzzTimeoutMs }, () => {
  const heads = fc.constantFrom("", "data: ", "{", "[", "<html>", "data: {", "\n\n");
  fc.assert(
    fc.property(heads, fc.uint8Array({ maxLength: 200 }), sizes, (head, tail, split) => {
      const bytes = new Uint8Array([...bytesOf(head), ...tail]);
      const once = feed(bytes, [Math.max(bytes.length, 1)]);
      expect(feed(bytes, split)).toEqual(once);
      expect(once.result.reply.toolCalls).toEqual([]);
    }),
    { numRuns: fuzzRuns },
  );
});
