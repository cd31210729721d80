import { isLong } from "./seed.ts";

/** Tells what the long form of a test counted, in one line that `npm run chaos` shows; the short forms print nothing. */
export function tellFigure(name: string, text: string): void {
  if (isLong) process.stdout.write(`figure ${name}: ${text}\n`);
}

/** The largest of them, as a whole number; 0 of none. */
export const most = (values: Iterable<number>): number => Math.round(Math.max(0, ...values));
