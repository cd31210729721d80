// Values that several layers must agree on and that none of them may import from another.

/** Default of everything that takes a `prefix`. The braces keep all keys of one installation in one cluster slot. */
export const defaultPrefix = "{drover}";

/** Largest data of a start, in UTF-8 bytes of its JSON. */
export const defaultPayloadLimitBytes = 1_048_576;

/** A tool's result is cut for the model at this, in tokens. */
export const defaultMaxResultTokens = 2_000;

/** From the most to the least that is written. */
export const logLevels = ["debug", "info", "warn", "error", "silent"] as const;
export type LogLevel = (typeof logLevels)[number];
