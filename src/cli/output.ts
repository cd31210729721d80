import { styleText } from "node:util";
import Table from "cli-table3";
import type { Redactor } from "../core/redact.ts";

/** How a piece of text is marked on a terminal that has colours. */
export type Mark = "bold" | "dim" | "red" | "green" | "yellow" | "cyan";

/** Where a command writes: results to standard output, remarks and errors to standard error. */
export type Output = {
  /** One line of the result. */
  line(text?: string): void;
  /** Part of a line of the result. */
  write(text: string): void;
  /** A value for programs, on one line. */
  json(value: unknown): void;
  /** One line as it is, a secret with it: for a command that was asked to show one. */
  secret(text: string): void;
  /** A remark for people; not part of the result. */
  note(text: string): void;
  /** Colours only on a terminal, and never where NO_COLOR is set. */
  mark(mark: Mark, text: string): string;
  /** Whether people read standard output, and control characters would be obeyed there. */
  isTerminal: boolean;
  table(head: string[], rows: string[][]): void;
  /** An area at the end of the screen that is drawn again and again; undefined if standard output is no terminal. */
  live(): Promise<LiveArea | undefined>;
};

/** Lines that stay, and a block below them that takes the place of the one before. */
export type LiveArea = {
  draw(lines: readonly string[], block: string): void;
  size(): { columns: number; rows: number };
  /** Calls back when the terminal's size has changed. */
  onResize(listener: () => void): void;
  /** Takes the block away and leaves the terminal as it was. */
  end(): void;
};

/**
 * Writes to the process's own streams, secrets redacted: whatever a command prints goes through here. A reader that went
 * away (`| head`) ends the process quietly.
 *
 * @param redactor asked for when something is written, since settings add to what is a secret.
 */
export function createOutput(redactor: () => Redactor): Output {
  const { stdout, stderr } = process;
  for (const stream of [stdout, stderr]) {
    stream.on("error", (error: NodeJS.ErrnoException) => {
      if (error.code !== "EPIPE") throw error;
      process.exit(0);
    });
  }
  // Text that comes in pieces may be parted within a character.
  let half = "";
  return {
    line: (text = "") => void stdout.write(`${redactor().text(text)}\n`),
    write(text) {
      const all = half + text;
      half = /[\uD800-\uDBFF]$/.test(all) ? all.slice(-1) : "";
      stdout.write(redactor().text(half === "" ? all : all.slice(0, -1)));
    },
    json: (value) => void stdout.write(`${toJsonLine(redactor().value(value))}\n`),
    secret: (text) => void stdout.write(`${text}\n`),
    note: (text) => void stderr.write(`${redactor().json(text)}\n`),
    mark: (mark, text) => styleText(mark, text, { stream: stdout }),
    isTerminal: stdout.isTTY === true,
    table: (head, rows) => void stdout.write(`${toTable(head, redactor().value(rows))}\n`),
    live: async () => (stdout.isTTY && process.env.TERM !== "dumb" ? openLiveArea(redactor) : undefined),
  };
}

async function openLiveArea(redactor: () => Redactor): Promise<LiveArea> {
  const { stdout } = process;
  // Loaded when it is asked for: most commands draw nothing.
  const { createLogUpdate } = await import("log-update");
  const update = createLogUpdate(stdout);
  const listeners: (() => void)[] = [];
  return {
    draw(lines, block) {
      if (lines.length > 0) {
        update.clear();
        stdout.write(lines.map((line) => `${redactor().text(line)}\n`).join(""));
      }
      update(redactor().text(block));
    },
    size: () => ({ columns: stdout.columns || 80, rows: stdout.rows || 24 }),
    onResize(listener) {
      listeners.push(listener);
      stdout.on("resize", listener);
    },
    end() {
      for (const listener of listeners) stdout.off("resize", listener);
      update.clear();
      update.done();
    },
  };
}

/** JSON in which what a terminal would obey is written out: somebody may look at it on one. */
export function toJsonLine(value: unknown): string {
  const toCode = (character: string): string => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;
  return JSON.stringify(value).replaceAll(/\p{Cc}|\p{Bidi_Control}/gu, toCode);
}

/** Columns divided by blanks alone, so that they can be cut and copied. */
export function toTable(head: string[], rows: string[][]): string {
  const blank = { top: "", "top-mid": "", "top-left": "", "top-right": "" };
  const table = new Table({
    head: head.map((name) => name.toUpperCase()),
    chars: {
      ...blank,
      bottom: "",
      "bottom-mid": "",
      "bottom-left": "",
      "bottom-right": "",
      left: "",
      "left-mid": "",
      mid: "",
      "mid-mid": "",
      right: "",
      "right-mid": "",
      middle: "  ",
    },
    style: { head: [], border: [], "padding-left": 0, "padding-right": 0 },
  });
  table.push(...rows);
  return table
    .toString()
    .split("\n")
    .map((line) => line.trimEnd())
    .join("\n");
}
