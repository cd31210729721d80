// Secrets that are told by the name they are given to (`password=...`, `"api_key": "..."`, `Authorization: Bearer ...`),
// in plain text, in JSON, and in JSON within JSON, where each quote has backslashes before it.

import { type Detector, opaque, type Tail } from "./redact-detectors.ts";

/** Where to look closer; upper and lower case are the same. */
export const nameTrigger: string =
  "pass(?:word|wd|phrase|code)|pwd|secret|(?:api|access|private|account|signing|encryption)[-_ ]?key|authorization|cookie|token|bearer|basic";

const suffix = "(?:[-_]?(?:access|secret|api|key|base|value|token|text|id|new|old|confirm(?:ation)?|[0-9]))";
const names: readonly [kind: string, name: string][] = [
  ["password", "pass(?:word|wd|phrase|code)"],
  // The shell's own PWD is a path.
  ["password", String.raw`pwd(?!["'\\]{0,9}\s{0,4}[:=]\s{0,4}["'\\]{0,9}[/~.])`],
  ["secret", "secret"],
  ["api key", "api[-_ ]?key"],
  ["key", "(?:access|private|account|signing|encryption)[-_ ]?key"],
  ["authorization", "authorization"],
  ["cookie", "cookie"],
  // Not the tokens of pages and of vocabularies.
  ["token", "(?<!(?:page|next|continuation|cursor|sync|pad|bos|eos|unk|sep|cls|mask|stop|special)[-_ ]?)token"],
];

// What stands where a value would and is none.
const noValue = [
  "true|false|null|none|nil|undefined|nan|string|str|number|integer|int|boolean|bool|object|array|list|any|unknown",
  "required|optional|missing|invalid|incorrect|wrong|expired|unset|empty|hidden|masked|redacted|changeme",
  "must|should|can|may|is|are|was|were|has|have|the|an?|your|my|our|their|its|it|this|that|these|not|no|yes|for|to|of",
  "and|or|if|in|on|from|with|by|as|at|see|follow|keep|use|enter|click|please|we|you|they|process|env|import|await|new",
  "self|options|config|function|async|let|const|return|include|same-origin|omit",
].join("|");
const unquoted = String.raw`(?!(?:${noValue})(?![A-Za-z0-9_-]))(?![A-Za-z_$][A-Za-z0-9_.$]{0,60}\()(?!\$[({A-Z]|%[sd(]|\*{3})[^\s"'\x60\\,;&<>{}()\[\]|]`;
// A scheme belongs to what stays.
const scheme = String.raw`(?:(?:bearer|basic|token|digest|negotiate|apikey|ssws)\s{1,3})?`;
// What was redacted stays as it is, and a key in PEM form is found by its own beginning.
const neither = `(?!${scheme}(?:${String.raw`\[redacted: `}|-----BEGIN))`;
const close = String.raw`(?<close>\\{0,7}["'\x60])?\]?`;
const sign = String.raw`\s{0,8}(?::=|=>|[:=])\s{0,8}`;
const said = String.raw`\s{1,2}(?:is|was):?\s{1,2}(?=[!-~]{6})(?=[!-~]{0,40}[0-9])`;
const flag = String.raw`(?<=--[A-Za-z-]{0,30})\s{1,3}(?!-)`;
const quoted = String.raw`(?<slashes>\\{0,7})(?<quote>["'\x60])${scheme}${neither}(?!\\{0,7}\k<quote>)(?!\$\{|\{\{|\*{3}|\.{3}|<[A-Za-z_-]{1,40}>|%[sd]|\$[A-Z_]{2,40}\k<quote>)`;

/** What a value must be like, where its name alone says too little. Looks at most 40 characters ahead. */
const looks: Record<string, string> = {
  cookie: String.raw`(?=[^\s;=,"'\u2E80-\uFFFF]{1,40}=)`,
  token: String.raw`(?=[!#-&(-\[\]-~]{20}|[!#-&(-\[\]-~]{0,40}[0-9])(?![0-9]{1,9}(?![A-Za-z0-9_.-]))`,
};

type Assignment = { kind: string; expression: RegExp };

const assignments: readonly Assignment[] = names.map(([kind, name]) => {
  const look = looks[kind] ?? "";
  const value = `(?:${quoted}${look}|${scheme}${neither}${look}${unquoted})`;
  // The value's first character is looked at and not taken.
  const source = `(?<!\\[redacted: [a-z0-9 ]{0,24})(?<keep>${name}${suffix}{0,2}(?:${close}${sign}|${said}|${flag}))(?=${value})(?:\\\\{0,7}["'\`])?${scheme}`;
  return { kind, expression: new RegExp(source, "iy") };
});

const unquotedTail: Tail = { unit: /[^\s"'`\\,.;&<>]+|[,.](?=[^\s"'`\\,;&<>])/y, ahead: 2 };
/** Of a value without quotes under a name with quotes: a number. */
const jsonTail: Tail = { unit: /[^\s"'`\\,;&<>{}[\]]+/y, ahead: 0 };
const cookieTail: Tail = { unit: /[^\s"'`\\<>]+|(?<=;) (?=[^\s"'`\\<>;=]{1,64}=)/y, ahead: 66 };

/** Up to the quote that ends a value which began with one of `slashes` backslashes before it. */
function quotedTail(slashes: number, quote: string): Tail {
  const step = 2 * (slashes + 1);
  const inner = String.raw`(?:\\{${step}}){0,2}\\{${step - 1}}${quote}`;
  const escaped = String.raw`\\{1,16}(?=[^${quote}\\])|\\(?=\\{16})`;
  const unit = new RegExp(String.raw`[^${quote}\\\n]+|${inner}|${escaped}`, "y");
  return { unit, ahead: 64 };
}
const quotedTails: ReadonlyMap<string, Tail> = new Map(
  [0, 1, 2, 3, 4, 5, 6, 7].flatMap((slashes) =>
    ['"', "'", "`"].map((quote): [string, Tail] => ["\\".repeat(slashes) + quote, quotedTail(slashes, quote)]),
  ),
);

const assigned: Detector = (text, at) => {
  for (const { kind, expression } of assignments) {
    expression.lastIndex = at;
    const match = expression.exec(text);
    if (!match) continue;
    const { slashes = "", quote, close: closing = "" } = match.groups as Record<string, string | undefined>;
    const found = { kind, keep: match[0], end: expression.lastIndex };
    const tail = quote === undefined ? undefined : quotedTails.get(slashes + quote);
    if (tail) return { ...found, tail };
    if (closing.endsWith('"') && !match[0].includes("]")) return { ...found, tail: jsonTail, quote: closing };
    return { ...found, tail: kind === "cookie" ? cookieTail : unquotedTail };
  }
  return undefined;
};

// Words follow "bearer" and "basic" in prose; what is no word has a digit, or capitals within.
const schemeHead =
  /(?<=^|[^A-Za-z0-9]|\\[nrtbf])(?:(?:[Bb]earer|BEARER)\s{1,4}(?=[A-Za-z0-9._~+/-]{6})(?:(?=[A-Za-z._~+/=-]{0,40}[0-9])|(?=(?:[a-z._~+/=-]{0,30}[A-Z]){3})(?=[A-Z.]{0,30}[a-z])(?=[A-Za-z._~+/=-]{12}))|(?:[Bb]asic|BASIC)\s{1,4}(?=[A-Za-z0-9+/]{8})(?=[a-z0-9+/]{0,30}[A-Z])(?:(?=[A-Za-z+/]{0,40}[0-9])|(?=(?:[a-z+/]{0,30}[A-Z]){3})|(?=[A-Za-z0-9+/]{8,80}=)))/y;

const authentication: Detector = (text, at) => {
  schemeHead.lastIndex = at;
  const match = schemeHead.exec(text);
  return match ? { kind: "credentials", keep: match[0], end: schemeHead.lastIndex, tail: opaque } : undefined;
};

/** What to try where the trigger is found. */
export const nameDetectors: readonly Detector[] = [assigned, authentication];
