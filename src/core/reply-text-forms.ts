/** A call as it was written into the text. */
export type WrittenCall = { name: string; arguments: string };

/** A closed block of calls: what it holds, and where the text goes on. */
export type Block = { calls: WrittenCall[]; end: number };

/** One way in which models write calls. `open` finds where a block may begin; `read` reads it, if it is closed. */
export type Form = { open: RegExp; read: (text: string, at: number) => Block | undefined };

/** Closing tags that are tried for one block. */
const maxCloses = 10;

/** `<tool_call>` with JSON (Hermes, Qwen), with function markup (Qwen3-Coder) or with key and value tags (GLM). */
const taggedForm: Form = {
  open: /<tool_call>/,
  read: (text, at) => {
    const start = at + "<tool_call>".length;
    const inside = start + leadingSpace(text, start);
    if (text.startsWith("<function=", inside)) return markupForm.read(text, inside);
    // The closing tag may also stand inside an argument: the first that makes sense is the end.
    for (const close of [...text.slice(start).matchAll(/<\/tool_call>/g)].slice(0, maxCloses)) {
      const inner = text.slice(start, start + close.index).trim();
      const calls = readJsonCalls(inner) ?? readKeyValues(inner);
      if (calls) return { calls, end: start + close.index + close[0].length };
    }
    return undefined;
  },
};

/**
 * `<function=NAME>` with `<parameter=KEY>` blocks of raw text, or with JSON. It is no XML: nothing is escaped. Models
 * forget either tag around it; its own end counts.
 */
const markupForm: Form = {
  open: /<function=/,
  read: (text, at) => {
    const match = /^<function=([^>\s]+)>([\s\S]*?)<\/function>(?:\s*<\/tool_call>)?/.exec(text.slice(at));
    if (!match) return undefined;
    const [whole, name = "", inner = ""] = match;
    const values = [...inner.matchAll(/<parameter=([^>\s]+)>([\s\S]*?)<\/parameter>/g)].map(
      ([, key = "", value = ""]): [string, string] => [key, value.replace(/^\n/, "").replace(/\n$/, "")],
    );
    const json = values.length === 0 ? inner.trim() || "{}" : JSON.stringify(Object.fromEntries(values));
    return { calls: [{ name, arguments: json }], end: at + whole.length };
  },
};

function leadingSpace(text: string, at: number): number {
  return text.slice(at).length - text.slice(at).trimStart().length;
}

/** `[TOOL_CALLS]` and a JSON list (Mistral), or a name, `[ARGS]` and an object. */
const mistralForm: Form = {
  open: /\[TOOL_CALLS\]/,
  read: (text, at) => {
    const pattern = /^\[TOOL_CALLS\]\s*(?:([\w.:-]+)\s*(?:\[ARGS\])?\s*(?=\{))?/g;
    const [[head = "", name] = []] = text.slice(at).matchAll(pattern);
    const json = jsonPrefix(text.slice(at + head.length));
    const calls = name === undefined || json === "" ? readJsonCalls(json) : [{ name, arguments: json }];
    return calls && { calls, end: at + head.length + json.length };
  },
};

/** `<|python_tag|>` and a JSON object (Llama). */
const pythonTagForm: Form = {
  open: /<\|python_tag\|>/,
  read: (text, at) => {
    const start = at + "<|python_tag|>".length;
    const space = leadingSpace(text, start);
    const json = jsonPrefix(text.slice(start + space));
    const calls = readJsonCalls(json);
    return calls && { calls, end: start + space + json.length };
  },
};

type Tokens = { section: [string, string]; call: [string, string]; separator: string };

/** Special tokens around each call: `begin NAME separator ARGUMENTS end`, all in one closed section. */
function tokenForm({ section: [open, close], call: [begin, end], separator }: Tokens): Form {
  const sectionPattern = new RegExp(`^${escape(open)}([\\s\\S]*?)${escape(close)}`);
  const callPattern = new RegExp(
    `\\s*${escape(begin)}(?:function${escape(separator)})?(.*?)(?:${escape(separator)}|\\n)([\\s\\S]*?)${escape(end)}\\s*`,
    "g",
  );
  return {
    open: new RegExp(escape(open)),
    read: (text, at) => {
      const [whole = "", inner = ""] = sectionPattern.exec(text.slice(at)) ?? [];
      const calls = [...inner.matchAll(callPattern)].map(([, name = "", args = ""]) => ({
        name: name.trim(),
        arguments: args.trim(),
      }));
      const isWhole = calls.length > 0 && inner.replace(callPattern, "") === "";
      return isWhole ? { calls, end: at + whole.length } : undefined;
    },
  };
}

function escape(token: string): string {
  return token.replace(/[|]/g, "\\|");
}

const deepseekForm: Form = tokenForm({
  section: ["<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"],
  call: ["<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>"],
  separator: "<｜tool▁sep｜>",
});
const kimiForm: Form = tokenForm({
  section: ["<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"],
  call: ["<|tool_call_begin|>", "<|tool_call_end|>"],
  separator: "<|tool_call_argument_begin|>",
});

export const forms: readonly Form[] = [taggedForm, markupForm, mistralForm, pythonTagForm, deepseekForm, kimiForm];

/** `NAME` and pairs of `<arg_key>` and `<arg_value>`. */
function readKeyValues(inner: string): WrittenCall[] | undefined {
  const name = /^[\w.-]+/.exec(inner)?.[0];
  if (name === undefined) return undefined;
  const pairs = /\s*<arg_key>([\s\S]*?)<\/arg_key>\s*<arg_value>([\s\S]*?)<\/arg_value>\s*/g;
  const values = [...inner.slice(name.length).matchAll(pairs)];
  if (inner.slice(name.length).replace(pairs, "").trim() !== "") return undefined;
  const entries = values.map(([, key = "", value = ""]): [string, string] => [key.trim(), value]);
  return [{ name, arguments: JSON.stringify(Object.fromEntries(entries)) }];
}

/** A JSON call, or a list of them; undefined if the text is anything else. */
export function readJsonCalls(text: string): WrittenCall[] | undefined {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return undefined;
  }
  const calls = (Array.isArray(value) ? value : [value]).map(toCall);
  return calls.length > 0 && calls.every((call) => call !== undefined) ? calls : undefined;
}

const callFields = new Set(["name", "arguments", "parameters", "type", "id", "function"]);

function toCall(value: unknown): WrittenCall | undefined {
  if (typeof value !== "object" || value === null) return undefined;
  const fields = value as Record<string, unknown>;
  if (!Object.keys(fields).every((field) => callFields.has(field))) return undefined;
  if (typeof fields.function === "object") return toCall(fields.function);
  const args = fields.arguments ?? fields.parameters;
  if (typeof fields.name !== "string" || args === undefined) return undefined;
  return { name: fields.name, arguments: typeof args === "string" ? args : JSON.stringify(args) };
}

/** The JSON object or list that a text begins with, by its brackets; empty if there is none or it is not closed. */
function jsonPrefix(text: string): string {
  if (!/^[[{]/.test(text)) return "";
  let depth = 0;
  for (const { 0: token, index } of text.matchAll(/"(?:[^"\\]|\\.)*"|[[\]{}]/gs)) {
    if (token === "{" || token === "[") depth += 1;
    if (token === "}" || token === "]") depth -= 1;
    if (depth === 0) return text.slice(0, index + 1);
  }
  return "";
}
