import { type RawAnswer, sendRaw, toRequestText } from "../raw-http.ts";

/** One request that means harm, and the statuses that are a right answer to it. */
export type Row = {
  what: string;
  /** The bytes, or what they are made of. */
  send: string | Buffer | Parameters<typeof toRequestText>[0];
  status: readonly number[];
  /** What must be true of the answer beside its status. */
  also?: ((answer: RawAnswer) => string | undefined) | undefined;
  /** Where from, of 127.0.0.0/8. */
  from?: string | undefined;
};

/** What no answer may hold: a stack, a path of the source, the kind of server. */
const leaks = [
  /\n\s+at [\w.<>]+ ?\(?/,
  /\bat (?:async )?[\w.<>]+ \(/,
  /node_modules/,
  /\/src\/\w+/,
  /(?:file:\/\/|\/work\/|\/app\/)/,
  /\b(?:ZodError|TypeError|RangeError|SyntaxError|ReplyError|ERR_[A-Z_]+)\b/,
  /^(?:server|x-powered-by):/im,
  /drv_[A-Za-z0-9-]+_[A-Za-z0-9_-]{20}/,
];

let sent = 0;
/** How many requests were sent in this process. */
export const countSent = (): number => sent;

/** Sends all rows, some at a time, and gives back a line for each that was not answered as it should be. */
export async function playRows(port: number, rows: readonly Row[]): Promise<string[]> {
  const problems: string[] = [];
  const left = [...rows];
  const next = async (): Promise<void> => {
    for (let row = left.shift(); row; row = left.shift()) problems.push(...(await play(port, row)));
  };
  await Promise.all(Array.from({ length: 8 }, next));
  return problems;
}

async function play(port: number, { what, send, status, also, from }: Row): Promise<string[]> {
  sent += 1;
  const bytes = typeof send === "string" || Buffer.isBuffer(send) ? send : toRequestText(send);
  let answer: RawAnswer;
  try {
    answer = await sendRaw(bytes, { port, from });
  } catch (error) {
    return [`${what}: ${String(error)}`];
  }
  const told = `${answer.status} ${answer.body.slice(0, 300)}`;
  const leak = leaks.find((pattern) => pattern.test(answer.all));
  const more = also?.(answer);
  return [
    ...(status.includes(answer.status) ? [] : [`${what}: expected ${status.join(" or ")}, received ${told}`]),
    ...(leak ? [`${what}: ${leak} is in the answer: ${answer.all.slice(0, 500)}`] : []),
    ...(more === undefined ? [] : [`${what}: ${more}; received ${answer.head}\n${answer.body.slice(0, 300)}`]),
  ];
}

/** A problem of RFC 9457, or below `/v1` an error of OpenAI's shape. */
export function isProblem({ body, headers }: RawAnswer): string | undefined {
  const type = headers.get("content-type") ?? "";
  if (!/^application\/(?:problem\+)?json/.test(type)) return `it is ${type}, no problem`;
  const text = headers.get("transfer-encoding") === "chunked" ? body.replaceAll(/\r?\n[0-9a-f]*\r\n/g, "") : body;
  return /"(?:detail|message)":"[^"]/.test(text) ? undefined : "it does not say what happened";
}
