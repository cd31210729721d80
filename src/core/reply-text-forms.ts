import { type Form, readJsonCalls, type WrittenCall } from "./reply-text-json.ts";
import { markerForms } from "./reply-text-markers.ts";
import { tokenForms } from "./reply-text-tokens.ts";

/** Closing tags that are tried for one block. */
const maxCloses = 10;

/**
 * A tag with JSON in it (Hermes, Qwen and their slips), with function markup (Qwen3-Coder) or with key and value tags
 * (GLM).
 */
const taggedForm: Form = {
  open: /<(?:tool_calls?|function_call|toolcall|tools)>/,
  read: (text, at) => {
    const tag = text.slice(at + 1, text.indexOf(">", at));
    const start = at + tag.length + 2;
    const inside = start + leadingSpace(text, start);
    if (text.startsWith("<function=", inside)) return markupForm.read(text, inside);
    // The closing tag may also stand inside an argument: the first that makes sense is the end.
    for (const close of closes(text, start, `</${tag}>`)) {
      const inner = text.slice(start, close).trim();
      const calls = readJsonCalls(inner) ?? readKeyValues(inner);
      if (calls) return { calls, end: close + tag.length + 3 };
    }
    return undefined;
  },
};

/** Where a closing tag stands, the first ones. */
function closes(text: string, from: number, tag: string): number[] {
  const found: number[] = [];
  for (let at = text.indexOf(tag, from); at !== -1 && found.length < maxCloses; at = text.indexOf(tag, at + 1)) {
    found.push(at);
  }
  return found;
}

/**
 * `<function=NAME>` with `<parameter=KEY>` blocks of raw text, or with JSON (Llama: also `<function=NAME{...}`). It is
 * no XML: nothing is escaped. Models forget either tag around it; its own end counts.
 */
const markupForm: Form = {
  open: /<function=/,
  read: (text, at) => {
    const [head = "", name = "", mark] =
      /^<function=([\w.:/-]+)\s*([=>]|(?=[{(]))>?/.exec(text.slice(at, at + 300)) ?? [];
    if (name === "") return undefined;
    const start = at + head.length;
    for (const close of closes(text, start, "</function>")) {
      const inner = text.slice(start, close).trim();
      const json = (mark === ">" ? readParameters(inner) : undefined) ?? readJsonArguments(inner);
      if (json === undefined) continue;
      const end = close + "</function>".length;
      const [tail = ""] = /^\s*<\/tool_call>/.exec(text.slice(end, end + 100)) ?? [];
      return { calls: [{ name, arguments: json }], end: end + tail.length };
    }
    return undefined;
  },
};

const parameterPattern = /<parameter=([^>\s]+)>([\s\S]*?)<\/parameter>/g;

function readParameters(inner: string): string | undefined {
  const values = [...inner.matchAll(parameterPattern)].map(([, key = "", value = ""]): [string, string] => [
    key,
    value.replace(/^\n/, "").replace(/\n$/, ""),
  ]);
  const isWhole =
    inner.replace(parameterPattern, "").trim() === "" && new Set(values.map(([key]) => key)).size === values.length;
  return isWhole ? JSON.stringify(Object.fromEntries(values)) : undefined;
}

/** `{...}`, `({...})` and, with what models put behind it, `{...}>`. */
function readJsonArguments(inner: string): string | undefined {
  const json = inner.replace(/^\(|\)?>?$/g, "").trim();
  return /^\{[\s\S]*\}$/.test(json) ? json : undefined;
}

function leadingSpace(text: string, at: number): number {
  return text.slice(at).length - text.slice(at).trimStart().length;
}

/** `NAME` and pairs of `<arg_key>` and `<arg_value>`. */
function readKeyValues(inner: string): WrittenCall[] | undefined {
  const name = /^[\w.-]+/.exec(inner)?.[0];
  if (name === undefined) return undefined;
  const pairs = /<arg_key>([\s\S]*?)<\/arg_key>\s*<arg_value>([\s\S]*?)<\/arg_value>/g;
  const values = [...inner.slice(name.length).matchAll(pairs)];
  if (inner.slice(name.length).replace(pairs, "").trim() !== "") return undefined;
  const entries = values.map(([, key = "", value = ""]): [string, string] => [key.trim(), value]);
  if (new Set(entries.map(([key]) => key)).size < entries.length) return undefined;
  return [{ name, arguments: JSON.stringify(Object.fromEntries(entries)) }];
}

export const forms: readonly Form[] = [taggedForm, markupForm, ...markerForms, ...tokenForms];
