// What a script is given in numbers. One that is none would let it do nothing, and find nothing wrong.

/** @throws Error naming the option */
export function readNumber(name: string, text: string, least: number): number {
  const value = text.trim() === "" ? Number.NaN : Number(text);
  if (Number.isFinite(value) && value >= least) return value;
  throw new Error(`--${name} must be a number of at least ${least}, not "${text}"`);
}
