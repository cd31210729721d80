import { parseKeywordCalls } from "./reply-relaxed.ts";
import { type Block, type Form, jsonPrefix, readJsonCalls, type WrittenCall } from "./reply-text-json.ts";

/** A marker that stands before calls, and where the calls begin. */
type Marked = { head: string; name?: string | undefined };

/** The block of JSON behind a marker: arguments if the marker names the tool, else calls. JSON closes itself. */
function readMarked(text: string, at: number, { head, name }: Marked): Block | undefined {
  const start = at + head.length;
  const json = jsonPrefix(text.slice(start));
  const calls = name === undefined || json === "" ? readJsonCalls(json) : [{ name, arguments: json }];
  return calls && { calls, end: start + json.length };
}

/** A form that is all marker and JSON; the pattern's first group is the tool's name, if there is one. */
function markedForm(open: RegExp, pattern: RegExp): Form {
  return {
    open,
    read: (text, at) => {
      const match = pattern.exec(text.slice(at, at + 600));
      return match ? readMarked(text, at, { head: match[0], name: match[1] }) : undefined;
    },
  };
}

/** `[TOOL_CALLS]` and a JSON list (Mistral), or a name, `[ARGS]` and an object. */
const mistralForm: Form = markedForm(
  /\[TOOL_CALLS\]/,
  /^\[TOOL_CALLS\]\s*(?:([\w.:-]+)\s*(?:\[CALL_ID\]\w*)?\s*(?:\[ARGS\])?\s*(?=\{))?/,
);

/** Markers with a JSON object or list behind them: Llama, Granite and Phi, Command R, Nemotron. */
const plainMarkers = [
  String.raw`<\|python_tag\|>`,
  String.raw`<\|tool_call\|>`,
  String.raw`<\|START_ACTION\|>`,
  "functools(?=\\[)",
  "<TOOLCALL>",
].join("|");
const plainForm: Form = markedForm(new RegExp(plainMarkers), new RegExp(`^(?:${plainMarkers})\\s*`));

/** GPT-OSS: a channel, `to=` a tool, and the arguments behind `<|message|>`. */
const harmonyForm: Form = markedForm(
  /(?:<\|start\|>assistant)?(?:<\|channel\|>\w+)? ?to=functions\.|<\|start\|>assistant<\|channel\|>(?:commentary|analysis) to=/,
  /^(?:<\|start\|>assistant)?(?:<\|channel\|>\w+)? ?to=([\w.:-]+)(?:<\|channel\|>\w+)?\s*(?:(?:<\|constrain\|>)?json)?\s*<\|message\|>\s*(?=\{)/,
);

/** `>>>NAME` and an object on the next line (Functionary). */
const functionaryForm: Form = markedForm(/(?<=^|\n)>>>(?=[\w.:-]+\n\s*\{)/, /^>>>([\w.:-]+)\n\s*(?=\{)/);

/** `Action:` and `Action Input:` on lines of their own (ReAct). */
const reactForm: Form = markedForm(/(?<=^|\n)Action: *[\w.:-]+ *\n/, /^Action: *([\w.:-]+) *\n+Action Input: *(?=\{)/);

/** Command R: a fence is part of the notation here. */
const commandForm: Form = {
  open: /(?<=^|\n)Action: *```json\n/,
  read: (text, at) => {
    const [whole = "", inner = ""] = /^Action: *```json\n([\s\S]*?)\n```/.exec(text.slice(at)) ?? [];
    const calls = readJsonCalls(inner);
    return calls && { calls, end: at + whole.length };
  },
};

/** `<invoke name="...">` with `<parameter name="...">` blocks of raw text (Claude, MiniMax, DeepSeek), mostly wrapped. */
const invokeForm: Form = {
  open: /<(?:[\w-]+:|｜DSML｜)?(?:function_calls>|invoke name=)|<minimax:tool_call>/,
  read: (text, at) => {
    const [head = ""] = /^<(?!invoke|[\w-]+:invoke|｜DSML｜invoke)[^<>]*>\s*/.exec(text.slice(at, at + 200)) ?? [];
    const calls: WrittenCall[] = [];
    let end = at + head.length;
    for (;;) {
      const block = readInvoke(text, end);
      if (!block) break;
      calls.push(...block.calls);
      ({ end } = block);
    }
    const [tail = ""] =
      /^\s*<\/(?:[\w-]+:|｜DSML｜)?(?:function_calls|tool_call)>/.exec(text.slice(end, end + 200)) ?? [];
    return calls.length > 0 ? { calls, end: end + tail.length } : undefined;
  },
};

function readInvoke(text: string, at: number): Block | undefined {
  const pattern = /^\s*<((?:[\w-]+:|｜DSML｜)?)invoke name="([^"]+)">([\s\S]*?)<\/\1invoke>/;
  const [whole, prefix = "", name = "", inner = ""] = pattern.exec(text.slice(at)) ?? [];
  if (whole === undefined) return undefined;
  const parameters = new RegExp(`<${prefix}parameter name="([^"]+)"[^>]*>([\\s\\S]*?)</${prefix}parameter>`, "g");
  const values = [...inner.matchAll(parameters)].map(([, key = "", value = ""]): [string, string] => [key, value]);
  if (inner.replace(parameters, "").trim() !== "") return undefined;
  if (new Set(values.map(([key]) => key)).size < values.length) return undefined;
  return { calls: [{ name, arguments: JSON.stringify(Object.fromEntries(values)) }], end: at + whole.length };
}

/** Calls as Python writes them, between Llama's tags or in the fence that Gemma has for them. */
const pythonForm: Form = {
  open: /<\|python_start\|>|(?<=^|\n)```(?:tool_code|tool_calls?|function_calls?)\n/,
  read: (text, at) => {
    const pattern = /^(?:<\|python_start\|>([\s\S]*?)<\|python_end\|>|```\w+\n([\s\S]*?)\n```)/;
    const [whole = "", tagged, fenced] = pattern.exec(text.slice(at)) ?? [];
    const inner = (tagged ?? fenced ?? "").trim();
    const calls = readJsonCalls(inner) ?? readKeywordCalls(inner);
    return calls && { calls, end: at + whole.length };
  },
};

/** `[add(a=1), ping()]`; `print(...)` around a call is how Gemma asks for its result. */
export function readKeywordCalls(text: string): WrittenCall[] | undefined {
  const calls = parseKeywordCalls(/^print\(([\s\S]*)\)$/.exec(text)?.[1] ?? text);
  if (!calls || calls.length === 0) return undefined;
  return calls.map(({ name, arguments: args }) => ({ name, arguments: JSON.stringify(args) }));
}

export const markerForms: readonly Form[] = [
  ...[mistralForm, plainForm, harmonyForm, functionaryForm],
  ...[reactForm, commandForm, invokeForm, pythonForm],
];
