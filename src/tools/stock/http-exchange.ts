import { request as httpRequest, type IncomingMessage } from "node:http";
import { request as httpsRequest } from "node:https";
import { type Address, pinnedLookup } from "./addresses.ts";

/** One request, sent to addresses that were checked before. */
export type Exchange = {
  url: URL;
  method: string;
  body: string | undefined;
  addresses: readonly Address[];
  maxBytes: number;
  signal: AbortSignal;
};

/** What came back: at most `maxBytes` of the body, and whether there was more. */
export type Answer = {
  status: number;
  header: (name: string) => string | undefined;
  bytes: Buffer;
  cut: boolean;
};

/** Sends a request and reads its answer. No redirect is followed. Rejects with network errors and when aborted. */
export async function exchange(request: Exchange): Promise<Answer> {
  const response = await send(request);
  try {
    const { bytes, cut } = await readUpTo(response, request.maxBytes);
    return {
      status: response.statusCode ?? 0,
      header: (name) => {
        const value = response.headers[name];
        return Array.isArray(value) ? value[0] : value;
      },
      bytes,
      cut,
    };
  } finally {
    response.destroy();
  }
}

function send({ url, method, body, addresses, signal }: Exchange): Promise<IncomingMessage> {
  const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
  const start = url.protocol === "https:" ? httpsRequest : httpRequest;
  const content =
    body === undefined ? {} : { "content-length": Buffer.byteLength(body), "content-type": contentTypeOf(body) };
  const request = start(url, {
    method,
    signal,
    // A connection of its own: a kept one would have been looked up by somebody else.
    agent: false,
    lookup: pinnedLookup(addresses),
    headers: { accept: "*/*", "accept-encoding": "identity", "user-agent": "drover", ...content },
  });
  request.once("response", resolve);
  request.on("error", reject);
  request.end(body);
  return promise;
}

function contentTypeOf(body: string): string {
  try {
    JSON.parse(body);
    return "application/json";
  } catch {
    return "text/plain; charset=utf-8";
  }
}

async function readUpTo(response: IncomingMessage, maxBytes: number): Promise<{ bytes: Buffer; cut: boolean }> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of response as AsyncIterable<Buffer>) {
    chunks.push(chunk);
    size += chunk.length;
    if (size > maxBytes) break;
  }
  return { bytes: Buffer.concat(chunks).subarray(0, maxBytes), cut: size > maxBytes };
}
