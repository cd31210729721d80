/** A call as it was written into the text. */
export type WrittenCall = { name: string; arguments: string };

/** A closed block of calls: what it holds, and where the text goes on. */
export type Block = { calls: WrittenCall[]; end: number };

/** One way in which models write calls. `open` finds where a block may begin; `read` reads it, if it is closed. */
export type Form = { open: RegExp; read: (text: string, at: number) => Block | undefined };

/** `<tool_call>` with JSON (Hermes, Qwen), with function markup (Qwen3-Coder) or with key and value tags (GLM). */
const taggedForm: Form = {
  open: /<tool_call>/,
  read: (text, at) => {
    const start = at + "<tool_call>".length;
    const markup = /^\s*<function=/.test(text.slice(start))
      ? markupForm.read(text, start + leadingSpace(text, start))
      : undefined;
    if (markup) {
      const close = /^\s*<\/tool_call>/.exec(text.slice(markup.end));
      return close ? { calls: markup.calls, end: markup.end + close[0].length } : undefined;
    }
    // The closing tag may also stand inside an argument: the first that makes sense is the end.
    for (const close of text.slice(start).matchAll(/<\/tool_call>/g)) {
      const inner = text.slice(start, start + close.index).trim();
      const calls = readJsonCalls(inner) ?? readKeyValues(inner);
      if (calls) return { calls, end: start + close.index + close[0].length };
    }
    return undefined;
  },
};

/** `<function=NAME>` with `<parameter=KEY>` blocks of raw text, or with JSON. It is no XML: nothing is escaped. */
const markupForm: Form = {
  open: /<function=/,
  read: (text, at) => {
    const match = /^<function=([^>\s]+)>([\s\S]*?)<\/function>/.exec(text.slice(at));
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
    const rest = text.slice(at + "[TOOL_CALLS]".length);
    const named = /^\s*([\w.:-]+)\s*(?:\[ARGS\])?\s*(?=\{)/.exec(rest);
    const skipped = named ? named[0].length : leadingSpace(rest, 0);
    const json = jsonPrefix(rest.slice(skipped));
    if (json === undefined) return undefined;
    const calls = named ? [{ name: named[1] ?? "", arguments: json }] : readJsonCalls(json);
    return calls && { calls, end: at + "[TOOL_CALLS]".length + skipped + json.length };
  },
};

/** `<|python_tag|>` and a JSON object (Llama). */
const pythonTagForm: Form = {
  open: /<\|python_tag\|>/,
  read: (text, at) => {
    const start = at + "<|python_tag|>".length;
    const space = leadingSpace(text, start);
    const json = jsonPrefix(text.slice(start + space));
    const calls = json === undefined ? undefined : readJsonCalls(json);
    return calls && { calls, end: start + space + (json ?? "").length };
  },
};

/** Special tokens around each call: `begin NAME separator ARGUMENTS end`, all in one closed section. */
function tokenForm(tokens: { section: [string, string]; call: [string, string]; separator: string }): Form {
  const [open, close] = tokens.section.map(escape);
  const [begin, end] = tokens.call.map(escape);
  const one = new RegExp(
    `^\\s*${begin}(?:function${escape(tokens.separator)})?(.*?)(?:${escape(tokens.separator)}|\\n)([\\s\\S]*?)${end}`,
  );
  return {
    open: new RegExp(open ?? ""),
    read: (text, at) => {
      const section = new RegExp(`^${open}([\\s\\S]*?)${close}`).exec(text.slice(at));
      let rest = section?.[1] ?? "";
      const calls: WrittenCall[] = [];
      for (let match = one.exec(rest); match; match = one.exec(rest)) {
        calls.push({ name: (match[1] ?? "").trim(), arguments: (match[2] ?? "").trim() });
        rest = rest.slice(match[0].length);
      }
      const isWhole = section && calls.length > 0 && rest.trim() === "";
      return isWhole ? { calls, end: at + section[0].length } : undefined;
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

/** The JSON object or list that a text begins with, by its brackets; undefined if it is not closed. */
function jsonPrefix(text: string): string | undefined {
  if (!/^[[{]/.test(text)) return undefined;
  let depth = 0;
  for (const { 0: token, index } of text.matchAll(/"(?:[^"\\]|\\.)*"|[[\]{}]/gs)) {
    if (token === "{" || token === "[") depth += 1;
    if (token === "}" || token === "]") depth -= 1;
    if (depth === 0) return text.slice(0, index + 1);
  }
  return undefined;
}
