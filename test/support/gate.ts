import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { z } from "zod";

const visitSchema = z.object({
  what: z.string(),
  runId: z.string(),
  callId: z.string().optional(),
  attempt: z.int().optional(),
  pid: z.int(),
});

/** A place in another process that waits until the test lets it go on. */
export type Visit = z.infer<typeof visitSchema> & {
  /** Epoch ms. */
  at: number;
  /** Lets it go on; a tool returns this text. */
  release(answer?: string): void;
  /** Resolves with epoch ms when the process gave up waiting, or died. */
  closed: Promise<number>;
};

/** Where worker processes ask before they go on, so that a test knows where each one stands without looking at a clock. */
export type Gate = {
  url: string;
  /** The next visit that fits and that no earlier call was given. */
  next(fits?: Partial<Pick<Visit, "what" | "runId" | "callId" | "pid">>): Promise<Visit>;
  visits: Visit[];
  stop(): Promise<void>;
};

type Waiter = { fits: Record<string, unknown>; resolve: (visit: Visit) => void };

export async function startGate(): Promise<Gate> {
  const visits: Visit[] = [];
  let unclaimed: Visit[] = [];
  let waiters: Waiter[] = [];
  const server = createServer((request, response) => {
    text(request).then(
      (body) => arrive(makeVisit(visitSchema.parse(JSON.parse(body)), response)),
      () => response.destroy(),
    );
  });
  function arrive(visit: Visit): void {
    visits.push(visit);
    const waiter = waiters.find(({ fits }) => matches(visit, fits));
    if (!waiter) {
      unclaimed.push(visit);
      return;
    }
    waiters = waiters.filter((other) => other !== waiter);
    waiter.resolve(visit);
  }
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`,
    visits,
    next(fits = {}) {
      const visit = unclaimed.find((other) => matches(other, fits));
      if (visit) {
        unclaimed = unclaimed.filter((other) => other !== visit);
        return Promise.resolve(visit);
      }
      return new Promise((resolve) => waiters.push({ fits, resolve }));
    },
    stop: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

function matches(visit: Visit, fits: Record<string, unknown>): boolean {
  return Object.entries(fits).every(([field, value]) => visit[field as keyof Visit] === value);
}

function makeVisit(fields: z.infer<typeof visitSchema>, response: ServerResponse): Visit {
  const closed = Promise.withResolvers<number>();
  response.on("close", () => {
    if (!response.writableFinished) closed.resolve(Date.now());
  });
  return {
    ...fields,
    at: Date.now(),
    release: (answer = "released") => response.end(answer),
    closed: closed.promise,
  };
}

/** Called in a worker process: waits until the test lets it go on, and returns the test's answer. */
export async function visitGate(
  url: string,
  visit: Omit<z.infer<typeof visitSchema>, "pid">,
  signal?: AbortSignal,
): Promise<string> {
  const body = JSON.stringify({ ...visit, pid: process.pid });
  const response = await fetch(url, { method: "POST", body, ...(signal ? { signal } : {}) });
  return response.text();
}
