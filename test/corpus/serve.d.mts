/** A request as the replaying server logged it. */
export type CorpusRecord = {
  n: number;
  /** Epoch ms. */
  t: number;
  path: string;
  exchange?: number;
  guard?: number;
  exhausted?: boolean;
  stream: boolean;
  body: unknown;
  raw: string;
};
export type CorpusServer = { url: string; records: CorpusRecord[]; close(): Promise<void> };

/** Replays a case as an OpenAI-compatible server, on a free port unless told otherwise. */
export function start(kase: object, options?: { port?: number; host?: string; log?: string }): Promise<CorpusServer>;
