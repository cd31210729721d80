import fc from "fast-check";
import { type Message, toCallId } from "../../src/core/message.ts";

/** Words as tokens: exact, cheap and easy to see through. */
export const count = (text: string): number => text.split(/\s+/).filter(Boolean).length;
export const cutText = (text: string, tokens: number): string =>
  text.split(/\s+/).filter(Boolean).slice(0, tokens).join(" ");
export function countMessage(message: Message): number {
  const text = (content: Message["content"]): number =>
    typeof content === "string"
      ? count(content)
      : (content ?? []).reduce((sum, part) => sum + (part.type === "text" ? count(String(part.text)) : 50), 0);
  const calls = message.role === "assistant" ? (message.toolCalls ?? []) : [];
  return 4 + text(message.content) + calls.reduce((sum, call) => sum + 4 + count(call.arguments), 0);
}

/** What the strictest servers refuse in a list of messages, in words. Knows nothing of how windows are made. */
export function refusals(messages: readonly Message[]): string[] {
  const found: string[] = [];
  const firstOther = messages.findIndex(({ role }) => role !== "system" && role !== "developer");
  const body = firstOther === -1 ? [] : messages.slice(firstOther);
  if (body.some(({ role }) => role === "system" || role === "developer"))
    found.push("a system message is not in front");
  if (body[0] && body[0].role !== "user") found.push(`the first message is of ${body[0].role}`);
  const turns = body.filter(
    (message) => message.role !== "tool" && !(message.role === "assistant" && message.toolCalls?.length),
  );
  turns.forEach((message, index) => {
    if (message.role !== (index % 2 === 0 ? "user" : "assistant")) found.push(`turn ${index} is of ${message.role}`);
  });
  let open: string[] = [];
  for (const message of body) {
    if (message.role === "tool") {
      if (open.shift() !== message.toolCallId) found.push(`result of ${message.toolCallId} is out of place`);
      continue;
    }
    if (open.length > 0) found.push(`${open.join()} lack results`);
    open = message.role === "assistant" ? (message.toolCalls ?? []).map((call) => call.id) : [];
    const blank = message.content === null || message.content.length === 0;
    if (blank && open.length === 0) found.push(`an empty message of ${message.role}`);
  }
  if (open.length > 0) found.push(`${open.join()} lack results at the end`);
  return found;
}

const words = fc.nat(400).map((n) => Array.from({ length: n }, (_, index) => `w${index % 7}`).join(" "));
const content = fc.oneof(
  { weight: 6, arbitrary: words },
  {
    weight: 1,
    arbitrary: words.map((text) => [
      { type: "text", text },
      { type: "image_url", image_url: { url: "data:," } },
    ]),
  },
);
type Piece =
  | { kind: "user" | "system" | "feedback"; content: Message["content"] & {} }
  | { kind: "answer"; content: Message["content"] }
  | { kind: "calls"; content: string | null; results: string[] };
const piece: fc.Arbitrary<Piece> = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({
      kind: fc.constant("calls" as const),
      content: fc.option(words),
      results: fc.array(words, { minLength: 1, maxLength: 3 }),
    }),
  },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant("answer" as const), content: fc.option(content) }) },
  { weight: 2, arbitrary: fc.record({ kind: fc.constantFrom("user" as const, "feedback" as const), content }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant("system" as const), content: words }) },
);

/** Any transcript that runs and sessions can leave: valid pairs, everything else in any order. */
export const transcriptArb: fc.Arbitrary<Message[]> = fc.array(piece, { minLength: 1, maxLength: 30 }).map((pieces) =>
  pieces.flatMap((one, turn): Message[] => {
    if (one.kind === "system") return [{ role: "system", content: one.content }];
    if (one.kind === "user") return [{ role: "user", content: one.content }];
    if (one.kind === "feedback") return [{ role: "user", content: one.content, origin: "run" }];
    if (one.kind === "answer") return [{ role: "assistant", content: one.content }];
    const { results } = one as Extract<Piece, { kind: "calls" }>;
    return [
      {
        role: "assistant",
        content: one.content,
        toolCalls: results.map((_, index) => ({
          callId: toCallId(turn, index + 1),
          id: `${turn}-${index}`,
          name: "look",
          arguments: "{}",
        })),
      },
      ...results.map(
        (text, index): Message => ({
          role: "tool",
          callId: toCallId(turn, index + 1),
          toolCallId: `${turn}-${index}`,
          name: "look",
          content: text,
          outcome: "ok",
        }),
      ),
    ];
  }),
);
