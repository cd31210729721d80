import type { Block, Form, WrittenCall } from "./reply-text-json.ts";

type Tokens = { sections: [string, string][]; call: [string, string]; separator: string };

/**
 * Special tokens around each call: `begin NAME separator ARGUMENTS end`. The section around them must be closed if it
 * is opened; models also leave it away.
 */
function tokenForm(tokens: Tokens): Form {
  const opens = [...tokens.sections.map(([open]) => open), tokens.call[0]];
  return {
    open: new RegExp(opens.map((token) => token.replace(/[|]/g, "\\|")).join("|")),
    read: (text, at) => {
      const section = tokens.sections.find(([open]) => text.startsWith(open, at));
      // A call inside a section that was not closed is not read on its own.
      if (!section && tokens.sections.some(([open]) => text.lastIndexOf(open, at) !== -1)) return undefined;
      const [open, close] = section ?? ["", ""];
      const block = readCalls(text, at + open.length, tokens);
      if (block.calls.length === 0 || !text.startsWith(close, block.end)) return undefined;
      return { calls: block.calls, end: block.end + close.length };
    },
  };
}

function readCalls(text: string, start: number, { call: [begin, end], separator }: Tokens): Block {
  const calls: WrittenCall[] = [];
  let at = start;
  for (;;) {
    at = text.length - text.slice(at).trimStart().length;
    const close = text.startsWith(begin, at) ? text.indexOf(end, at) : -1;
    if (close === -1) return { calls, end: at };
    const inner = text.slice(at + begin.length, close).trim();
    const [head = "", ...rest] = inner
      .replace(new RegExp(`^function${separator.replace(/[|]/g, "\\|")}`), "")
      .split(separator);
    const [name = "", ...lines] = head.split("\n");
    calls.push({ name: name.trim(), arguments: [...lines, rest.join(separator)].join("\n").trim() });
    at = close + end.length;
  }
}

const deepseekForm: Form = tokenForm({
  sections: [["<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"]],
  call: ["<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>"],
  separator: "<｜tool▁sep｜>",
});
const kimiForm: Form = tokenForm({
  sections: [
    ["<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"],
    ["<|tool_call_section_begin|>", "<|tool_call_section_end|>"],
  ],
  call: ["<|tool_call_begin|>", "<|tool_call_end|>"],
  separator: "<|tool_call_argument_begin|>",
});

export const tokenForms: readonly Form[] = [deepseekForm, kimiForm];
