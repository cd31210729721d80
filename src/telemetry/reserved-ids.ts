import { randomSpanId, randomTraceId } from "./ids.ts";

/**
 * An id generator for a tracer provider that gives out chosen ids. Starting a span is synchronous, so ids set around
 * one call reach exactly that span; everyone else's spans get random ids.
 */
export type ReservedIds = {
  generateTraceId(): string;
  generateSpanId(): string;
  /** Runs `start`, whose first new span (and trace, if it begins one) gets these ids. */
  use<T>(ids: { traceId: string; spanId: string }, start: () => T): T;
};

export function createReservedIds(): ReservedIds {
  let next: { traceId?: string; spanId?: string } = {};
  const take = (name: "traceId" | "spanId"): string | undefined => {
    const { [name]: id, ...rest } = next;
    next = rest;
    return id;
  };
  return {
    generateTraceId: () => take("traceId") ?? randomTraceId(),
    generateSpanId: () => take("spanId") ?? randomSpanId(),
    use(ids, start) {
      next = ids;
      try {
        return start();
      } finally {
        next = {};
      }
    },
  };
}
