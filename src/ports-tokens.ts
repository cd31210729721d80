import type { Message } from "./core/message.ts";

/** Counts text as a model does. */
export type TokenCounter = {
  count(text: string): number;
  countMessage(message: Message): number;
  /** A prefix of at most so many tokens, cut between characters. */
  cut(text: string, tokens: number): string;
  /** False: an estimate. */
  exact: boolean;
};
