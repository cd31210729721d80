import { type ClientRequest, request } from "node:http";
import { createParser } from "eventsource-parser";

export type SseEvent = { id: string; event: string; data: string };

/** A stream that is read until it ends or is cut. */
export type SseStream = {
  /** Resolves with the answer's status when the stream has ended, been cut or broken. */
  ended: Promise<number | undefined>;
  cut(): void;
};

/** Reads server-sent events over a socket of its own. */
export function openSse(
  url: string,
  options: { after?: string | undefined; headers?: Record<string, string>; onEvent: (event: SseEvent) => void },
): SseStream {
  const headers = { ...options.headers, ...(options.after === undefined ? {} : { "last-event-id": options.after }) };
  const { promise: ended, resolve } = Promise.withResolvers<number | undefined>();
  let status: number | undefined;
  let live = true;
  const end = (): void => {
    live = false;
    resolve(status);
  };
  const asking: ClientRequest = request(url, { agent: false, headers }, (response) => {
    status = response.statusCode;
    const parser = createParser({
      onEvent: ({ id = "", event = "", data }) => {
        if (live) options.onEvent({ id, event, data });
      },
    });
    response.setEncoding("utf8");
    response.on("data", (text: string) => parser.feed(text));
    response.on("end", end);
    response.on("error", end);
    response.on("close", end);
  });
  asking.on("error", end);
  asking.end();
  return {
    ended,
    cut() {
      end();
      asking.destroy();
    },
  };
}
